"""A YAML file as data, with the place of every value; nothing in it is ever executed."""

from __future__ import annotations

import math
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
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value

    def mapping(self, what: str) -> dict[str, Node]:
        """The value, which must be a mapping."""
        if not isinstance(self.value, dict):
            raise StopwavError(f"{self.where}: {what} must be a mapping (`key: value` lines), not {kind(self)}")
        return self.value

    def sequence(self, what: str) -> list[Node]:
        """The value, which must be a list."""
        if not isinstance(self.value, list):
            raise StopwavError(f"{self.where}: {what} must be a list ([a, b] or `- a` lines), not {kind(self)}")
        return self.value


def as_node(value: Any, where: str) -> Node:
    """A value that came from elsewhere than a file, as a node."""
    if isinstance(value, dict):
        return Node({str(key): as_node(one, where) for key, one in value.items()}, where, where)
    if isinstance(value, list | tuple):
        return Node([as_node(one, where) for one in value], where, where)
    return Node(str(value) if isinstance(value, Path) else value, where, where)


def kind(node: Node) -> str:
    """What a node is, for a message."""
    if isinstance(node.value, dict | list):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    return "nothing" if node.value is None else shown(node.value)


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, short, with no character that could rewrite the terminal."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def read_yaml(path: Path, tags: frozenset[str] = frozenset()) -> Node:
    """What a YAML file holds; the named tags are kept for the caller, every other is refused."""
    try:
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
    """What a text of YAML holds, its places said to be in `name`."""
    try:
        found = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise StopwavError(_syntax_error(error, name)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StopwavError(f"{name}:{line}: character {error.character:#04x} is not allowed in YAML") from None
    except RecursionError:
        raise StopwavError(f"{name}: nested more than {MAX_DEPTH} deep") from None
    if found is None:
        return Node(None, name, name)
    return _Reader(name, tags).node(found)


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

    def node(self, found: yaml.Node, depth: int = 1) -> Node:
        where = self._place(found)
        self._count += 1
        if depth > MAX_DEPTH:
            raise StopwavError(f"{where}: nested more than {MAX_DEPTH} deep")
        if self._count > MAX_VALUES:
            raise StopwavError(f"{where}: more than {MAX_VALUES} values, aliases written out")
        if isinstance(found, yaml.ScalarNode):
            tag = found.tag if found.tag in self._tags else ""
            return Node(found.value if tag else self._scalar(found, where), where, tag=tag)
        self._check_tag(found, where, ("map", "seq"))
        if isinstance(found, yaml.SequenceNode):
            return Node([self.node(item, depth + 1) for item in found.value], where)
        return Node(dict(self._items(found, depth)), where)

    def _items(self, found: yaml.Node, depth: int) -> Iterator[tuple[str, Node]]:
        first: dict[str, str] = {}
        for key_node, value_node in found.value:
            where = self._place(key_node)
            key = self._key(key_node, where)
            if key in first:
                raise StopwavError(f"{where}: key {shown(key)} appears a second time; the first is at {first[key]}")
            first[key] = where
            yield key, replace(self.node(value_node, depth + 1), key_where=where)

    def _key(self, found: yaml.Node, where: str) -> str:
        if isinstance(found, yaml.ScalarNode) and found.tag == f"{_STANDARD}merge":
            raise StopwavError(f"{where}: merge keys (<<) are not read; write the keys out")
        key = self._scalar(found, where) if isinstance(found, yaml.ScalarNode) else None
        if not isinstance(key, str):
            raise StopwavError(f"{where}: a key must be text; put it in quotes")
        return key

    def _scalar(self, found: yaml.ScalarNode, where: str) -> Any:
        # A date, or `=`, is text like any other here.
        self._check_tag(found, where, ("str", "int", "float", "bool", "null", "timestamp", "value"))
        try:
            value = _construct(found)
        except (ValueError, KeyError, IndexError, OverflowError):
            tag = found.tag.removeprefix(_STANDARD)
            raise StopwavError(f"{where}: {shown(found.value)} cannot be read as {tag}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise StopwavError(f"{where}: {shown(found.value)} is not a number that can be used")
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise StopwavError(f"{where}: {shown(value)} is half a character; it has no UTF-8")
        return value

    def _check_tag(self, found: yaml.Node, where: str, allowed: tuple[str, ...]) -> None:
        if found.tag.removeprefix(_STANDARD) not in allowed or not found.tag.startswith(_STANDARD):
            tag = found.tag.replace(_STANDARD, "!!", 1)
            raise StopwavError(f"{where}: tag {shown(tag)} is refused: the file is data, nothing in it is executed")

    def _place(self, found: yaml.Node) -> str:
        return f"{self._name}:{found.start_mark.line + 1}:{found.start_mark.column + 1}"


def _construct(found: yaml.ScalarNode) -> Any:
    maker = yaml.constructor.SafeConstructor()
    name = found.tag.removeprefix(_STANDARD)
    if name == "null":
        return None
    if ":" in found.value:
        # YAML 1.1 counts 1:30 in sixties; nobody who writes it here means 90.
        return found.value
    if name == "bool":
        return maker.construct_yaml_bool(found)
    if name == "int":
        return maker.construct_yaml_int(found)
    if name == "float":
        return maker.construct_yaml_float(found)
    if found.style is None and _EXPONENT.fullmatch(found.value):
        return float(found.value)
    return found.value
