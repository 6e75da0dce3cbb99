"""The matrix of a plan file: named lists of values, of which every combination is measured."""

from __future__ import annotations

import difflib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.errors import StopwavError
from stopwav.studies.plan.yaml_file import Node, kind, shown

# At the least a second each: beyond a thousand combinations a matrix is a mistake, and 10 lists of 10 would fill
# the memory before anyone saw it.
MAX_COMBINATIONS = 1_000

_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# `{{x}}` is a literal `{x}`.
_REFERENCE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w-]*)\}", re.ASCII)

Combination = dict[str, Any]


@dataclass(frozen=True)
class Matrix:
    """Named lists of values, the combinations to leave out (by some of their values), and those to add."""

    axes: Mapping[str, Sequence[Any]]
    exclude: Sequence[Combination] = ()
    include: Sequence[Combination] = ()

    def combinations(self) -> list[Combination]:
        """Return every combination once, the last name varying fastest; then those that `include` adds."""
        every = [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]
        kept = [combination for combination in every if not any(_holds(combination, p) for p in self.exclude)]
        for added in self.include:
            if not any(_holds(combination, added) for combination in kept):
                kept.append(added)
        return kept


def read_matrix(node: Node) -> Matrix:
    """Return the matrix that a node of a plan file describes."""
    entries = dict(node.mapping("matrix"))
    exclude, include = entries.pop("exclude", None), entries.pop("include", None)
    axes = {name: _axis(name, values) for name, values in entries.items()}
    if not axes:
        raise StopwavError(f"{node.where}: matrix is empty; write `name: [value, value]` in it")
    count = math.prod(len(values) for values in axes.values())
    if count > MAX_COMBINATIONS:
        raise StopwavError(f"{node.where}: matrix has {count} combinations, more than {MAX_COMBINATIONS}")
    matrix = Matrix(
        axes,
        [_excluded(item, axes) for item in exclude.sequence("exclude")] if exclude else (),
        [_included(item, axes) for item in include.sequence("include")] if include else (),
    )
    if not matrix.combinations():
        raise StopwavError(f"{node.where}: matrix excludes every combination")
    return matrix


def references(node: Node) -> set[str]:
    """Return the names in braces in the texts of a node."""
    if isinstance(node.value, dict | list):
        inner = node.value.values() if isinstance(node.value, dict) else node.value
        return {name for item in inner for name in references(item)}
    matches = _REFERENCE.finditer(node.value) if isinstance(node.value, str) else ()
    return {match[1] for match in matches if match[1]}


def fill(node: Node, combination: Combination) -> Node:
    """Return the node with every `{name}` replaced; one that is the whole text keeps the type of its value."""
    if isinstance(node.value, dict):
        return replace(node, value={key: fill(item, combination) for key, item in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[fill(item, combination) for item in node.value])
    if not isinstance(node.value, str):
        return node
    alone = _REFERENCE.fullmatch(node.value)
    if alone and alone[1]:
        return replace(node, value=_value_of(alone[1], combination, node))
    text = _REFERENCE.sub(lambda match: _text(match, combination, node), node.value)
    return replace(node, value=text)


def _text(match: re.Match[str], combination: Combination, node: Node) -> str:
    if not match[1]:
        return match[0][0]
    value = _value_of(match[1], combination, node)
    return value if isinstance(value, str) else json.dumps(value)


def _value_of(name: str, combination: Combination, node: Node) -> Any:
    if name not in combination:
        raise StopwavError(f"{node.where}: {{{name}}} is not in the matrix, which has {_nearest(name, combination)}")
    return combination[name]


def _axis(name: str, node: Node) -> list[Any]:
    if not _NAME.fullmatch(name):
        raise StopwavError(f"{node.key_where}: matrix name {shown(name)} must be letters, digits, - and _")
    values = [_scalar(item, name) for item in node.sequence(f"matrix {name}")]
    if not values:
        raise StopwavError(f"{node.where}: matrix {name} has no values")
    for index, value in enumerate(values):
        if any(_same(value, other) for other in values[:index]):
            raise StopwavError(f"{node.value[index].where}: matrix {name} has {shown(value)} twice")
    return values


def _scalar(node: Node, name: str) -> Any:
    if node.value is None or isinstance(node.value, dict | list):
        raise StopwavError(f"{node.where}: a value of matrix {name} must be text or a number, not {kind(node)}")
    return node.value


def _excluded(node: Node, axes: Mapping[str, Sequence[Any]]) -> Combination:
    pattern = _combination(node, axes, "exclude")
    for name, value in pattern.items():
        if not any(_same(value, other) for other in axes[name]):
            raise StopwavError(f"{node.value[name].where}: exclude: {name} is never {shown(value)} in the matrix")
    return pattern


def _included(node: Node, axes: Mapping[str, Sequence[Any]]) -> Combination:
    combination = _combination(node, axes, "include")
    missing = [name for name in axes if name not in combination]
    if missing:
        raise StopwavError(f"{node.where}: include: a combination must have a value for {', '.join(missing)} too")
    return combination


def _combination(node: Node, axes: Mapping[str, Sequence[Any]], what: str) -> Combination:
    entries = node.mapping(f"an item of {what}")
    if not entries:
        raise StopwavError(f"{node.where}: an item of {what} must name values of the matrix")
    for name, value in entries.items():
        if name not in axes:
            raise StopwavError(
                f"{value.key_where}: {what}: the matrix has no {shown(name)}, but {_nearest(name, axes)}"
            )
    return {name: _scalar(value, name) for name, value in entries.items()}


def _holds(combination: Combination, pattern: Combination) -> bool:
    return all(_same(combination[name], value) for name, value in pattern.items())


def _same(a: Any, b: Any) -> bool:
    # As written: to Python, true equals 1.
    return type(a) is type(b) and bool(a == b)


def _nearest(name: str, names: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return near[0] if near else ", ".join(names)
