"""The tensor names of other toolkits, turned into ours by rules from a JSON file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from stopwav.errors import StopwavError

INCLUDED = Path(__file__).parent / "names"


@dataclass(frozen=True)
class Rule:
    """Every match of the pattern in a name becomes the replacement; `None` drops the tensor."""

    pattern: re.Pattern[str]
    replacement: str | None


def read_rules(names: str) -> list[Rule]:
    """Read the rules of an included layout, such as `espnet`, or a file: `{"rules": [[pattern, replacement], …]}`."""
    included = {path.stem: path for path in sorted(INCLUDED.glob("*.json"))}
    path = included.get(names, Path(names))
    try:
        rules = json.loads(path.read_text())["rules"]
        return [_rule(names, pattern, replacement) for pattern, replacement in rules]
    except OSError as error:
        raise StopwavError(
            f"names={names}: {error.strerror}; give a file of rules, or one of {', '.join(included)}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StopwavError(
            f'names={names}: expected JSON with "rules", a list of [pattern, replacement or null]'
        ) from error


def rename(tensors: Mapping[str, Tensor], rules: Sequence[Rule], path: Path) -> dict[str, Tensor]:
    """Return the tensors by their new names, after applying every rule in order."""
    renamed: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for name, tensor in tensors.items():
        new = _renamed(name, rules)
        if new is None:
            continue
        if new in renamed:
            raise StopwavError(f"{path}: {origin[new]} and {name} would both become {new}; check the rules of names=…")
        renamed[new], origin[new] = tensor, name
    return renamed


def _renamed(name: str, rules: Sequence[Rule]) -> str | None:
    for rule in rules:
        if rule.replacement is None:
            if rule.pattern.search(name):
                return None
        else:
            name = rule.pattern.sub(rule.replacement, name)
    return name


def _rule(names: str, pattern: object, replacement: object) -> Rule:
    if not isinstance(pattern, str) or not isinstance(replacement, str | None):
        raise StopwavError(f"names={names}: {pattern!r} → {replacement!r}: expected a pattern, and a text or null")
    try:
        # A replacement that refers to a missing group would fail at the first match; with an alternative that always
        # matches it fails now.
        re.sub(f"{pattern}|", replacement or "", "")
        return Rule(re.compile(pattern), replacement)
    except re.error as error:
        raise StopwavError(
            f"names={names}: {pattern!r} → {replacement!r} is not a valid regular expression ({error})"
        ) from error
