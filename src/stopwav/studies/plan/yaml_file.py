"""A YAML file as data, with the place of every value; nothing in it is ever executed.

Built on PyYAML's nodes by hand: ruamel.yaml has positions and duplicate keys too, but most of this file is limits,
refused tags and messages, which would stay; we estimate a tenth fewer lines, and files that say `yes` would break.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from stopwav.errors import StopwavError

# A settings file has a few hundred values. Aliases that double at each level reach millions from a few lines, and
# PyYAML reads about a megabyte a second: beyond these a file is a mistake or an attack.
MAX_BYTES = 200_000
MAX_VALUES = 10_000
MAX_DEPTH = 20
# What JSON holds exactly: a whole number beyond it would be another one in a run file, and may be of any length.
MAX_WHOLE = 2**53

_STANDARD = "tag:yaml.org,2002:"
# YAML 1.1 takes 1e-3 for text, since it has no point; nobody who writes it means text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True)
class Node:
    """A value of a file and where it stands: a scalar, a list of nodes, or a mapping of text to nodes."""

    value: Any
    where: str
    # Where its key stands, for a value of a mapping.
    key_where: str = ""
    # The tag it was written with, such as `!ref`, where the reader allows it.
    tag: str = ""

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value

    def mapping(self, what: str) -> dict[str, Node]:
        """Return the value, which must be a mapping."""
        if not isinstance(self.value, dict):
            raise StopwavError(f"{self.where}: {what} must be a mapping (`key: value` lines), not {kind(self)}")
        return self.value

    def sequence(self, what: str) -> list[Node]:
        """Return the value, which must be a list."""
        if not isinstance(self.value, list):
            raise StopwavError(f"{self.where}: {what} must be a list ([a, b] or `- a` lines), not {kind(self)}")
        return self.value


def as_node(value: Any, where: str) -> Node:
    """Return a value that does not come from a file as a node."""
    if isinstance(value, dict):
        return Node({str(key): as_node(item, where) for key, item in value.items()}, where, where)
    if isinstance(value, list | tuple):
        return Node([as_node(item, where) for item in value], where, where)
    return Node(str(value) if isinstance(value, Path) else value, where, where)


def kind(node: Node) -> str:
    """Return the kind of a node, for a message."""
    if isinstance(node.value, dict | list):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    return "nothing" if node.value is None else shown(node.value)


def shown(value: Any) -> str:
    """Return a value as a message shows it: on one line, short, with no character that could rewrite the terminal."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def read_yaml(path: Path, tags: frozenset[str] = frozenset()) -> Node:
    """Return the content of a YAML file; the named tags are kept for the caller, every other is refused."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may never end
            raise StopwavError(f"{path}: is not a file; name a file of settings, such as `stopwav init` writes")
        content = path.read_bytes()
    except OSError as error:
        raise StopwavError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise StopwavError(f"{path}: {len(content)} bytes, more than the {MAX_BYTES} of any file of settings")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StopwavError(f"{path}:{line}: not UTF-8 (byte {content[error.start]:#04x}); save it as UTF-8") from None
    node = parse_yaml(text, str(path), tags)
    if node.value is None:
        raise StopwavError(f"{path}: is empty; `stopwav init` writes one to start from")
    return node


def parse_yaml(text: str, name: str, tags: frozenset[str] = frozenset()) -> Node:
    """Return the content of a text of YAML, whose places are in `name`."""
    try:
        yaml_node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise StopwavError(_syntax_error(error, name)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StopwavError(f"{name}:{line}: character {error.character:#04x} is not allowed in YAML") from None
    except RecursionError:
        raise StopwavError(f"{name}: nested more than {MAX_DEPTH} deep") from None
    if yaml_node is None:
        return Node(None, name, name)
    return _Reader(name, tags).node(yaml_node)


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    problem = " ".join((error.problem or "not YAML").split())
    if "another document" in problem:
        return f"{place}: a second document begins (`---`); write each into a file of its own"
    hint = "; indent with spaces, not tabs" if "'\\t'" in problem else ""
    return f"{place}: {problem[:200]}{hint}"


class _Reader:
    """Turns PyYAML's nodes into ours, and counts them."""

    def __init__(self, name: str, tags: frozenset[str]) -> None:
        self._name, self._tags, self._count = name, tags, 0

    def node(self, yaml_node: yaml.Node, depth: int = 1) -> Node:
        where = self._place(yaml_node)
        self._count += 1
        if depth > MAX_DEPTH:
            raise StopwavError(f"{where}: nested more than {MAX_DEPTH} deep")
        if self._count > MAX_VALUES:
            raise StopwavError(f"{where}: more than {MAX_VALUES} values, aliases written out")
        if isinstance(yaml_node, yaml.ScalarNode):
            tag = yaml_node.tag if yaml_node.tag in self._tags else ""
            return Node(yaml_node.value if tag else self._scalar(yaml_node, where), where, tag=tag)
        self._check_tag(yaml_node, where, ("map", "seq"))
        if isinstance(yaml_node, yaml.SequenceNode):
            return Node([self.node(item, depth + 1) for item in yaml_node.value], where)
        return Node(dict(self._items(yaml_node, depth)), where)

    def _items(self, yaml_node: yaml.Node, depth: int) -> Iterator[tuple[str, Node]]:
        first: dict[str, str] = {}
        for key_node, value_node in yaml_node.value:
            where = self._place(key_node)
            key = self._key(key_node, where)
            if key in first:
                raise StopwavError(f"{where}: key {shown(key)} appears a second time; the first is at {first[key]}")
            first[key] = where
            yield key, replace(self.node(value_node, depth + 1), key_where=where)

    def _key(self, yaml_node: yaml.Node, where: str) -> str:
        if isinstance(yaml_node, yaml.ScalarNode) and yaml_node.tag == f"{_STANDARD}merge":
            raise StopwavError(f"{where}: merge keys (<<) are not read; write the keys out")
        key = self._scalar(yaml_node, where) if isinstance(yaml_node, yaml.ScalarNode) else None
        if key is True and yaml_node.value == "on":  # to YAML 1.1 it is `true`; as a key it is the setting
            return "on"
        if not isinstance(key, str):
            raise StopwavError(f"{where}: a key must be text; put it in quotes")
        return key

    def _scalar(self, yaml_node: yaml.ScalarNode, where: str) -> Any:
        # A date, or `=`, is text like any other here.
        self._check_tag(yaml_node, where, ("str", "int", "float", "bool", "null", "timestamp", "value"))
        try:
            value = _construct(yaml_node)
        except (ValueError, KeyError, IndexError, OverflowError):
            tag = yaml_node.tag.removeprefix(_STANDARD)
            raise StopwavError(f"{where}: {shown(yaml_node.value)} cannot be read as {tag}") from None
        if isinstance(value, int) and abs(value) > MAX_WHOLE:
            raise StopwavError(f"{where}: {shown(yaml_node.value)} is a larger number than any setting has")
        if isinstance(value, float) and not math.isfinite(value):
            raise StopwavError(f"{where}: {shown(yaml_node.value)} is not a number that can be used")
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise StopwavError(f"{where}: {shown(value)} is half a character; it has no UTF-8")
        return value

    def _check_tag(self, yaml_node: yaml.Node, where: str, allowed: tuple[str, ...]) -> None:
        if yaml_node.tag.removeprefix(_STANDARD) not in allowed or not yaml_node.tag.startswith(_STANDARD):
            tag = yaml_node.tag.replace(_STANDARD, "!!", 1)
            raise StopwavError(f"{where}: tag {shown(tag)} is refused: the file is data, nothing in it is executed")

    def _place(self, yaml_node: yaml.Node) -> str:
        return f"{self._name}:{yaml_node.start_mark.line + 1}:{yaml_node.start_mark.column + 1}"


def _construct(yaml_node: yaml.ScalarNode) -> Any:
    maker = yaml.constructor.SafeConstructor()
    name = yaml_node.tag.removeprefix(_STANDARD)
    if name == "null":
        return None
    if ":" in yaml_node.value:
        # YAML 1.1 counts 1:30 in sixties; nobody who writes it here means 90.
        return yaml_node.value
    if name == "bool":
        return maker.construct_yaml_bool(yaml_node)
    if name == "int":
        return maker.construct_yaml_int(yaml_node)
    if name == "float":
        return maker.construct_yaml_float(yaml_node)
    if yaml_node.style is None and _EXPONENT.fullmatch(yaml_node.value):
        return float(yaml_node.value)
    return yaml_node.value
