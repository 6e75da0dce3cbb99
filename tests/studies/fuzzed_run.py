"""Run files edited at random: values, keys, lines and bytes, by a seed that makes the same file again."""

import json
import random
from collections.abc import Callable
from typing import Any

# What people, programs and broken disks put in the place of a value.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    -0.5,
    -1e9,
    1e-320,
    1e308,
    10**30,
    2**63,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "-1",
    "\ud800",
    "w" * 5000,
    [],
    {},
    [None],
    [[], [[]]],
    {"a": {"b": []}},
)
Lines = list[bytes]


def fuzzed(content: bytes, seed: int) -> bytes:
    """The content of a run file, edited in one to three places."""
    choice = random.Random(seed)
    lines = content.splitlines(keepends=True)
    for _ in range(choice.choice((1, 1, 1, 2, 3))):
        if lines:
            # Half of the edits are of one value: what checks of lines alone would not notice.
            edit = _edit_value if choice.random() < 0.5 else choice.choice(EDITS)
            lines = edit(lines, choice)
    return b"".join(lines)


def _edit_value(lines: Lines, choice: random.Random) -> Lines:
    return _edit_fields(lines, choice, lambda: choice.choice(VALUES))


def _nest(lines: Lines, choice: random.Random) -> Lines:
    depth = choice.choice((3, 200, 3000))
    number = choice.randrange(len(lines))
    line = lines[number].rstrip(b"\n")
    return [*lines[:number], b"[" * depth + line + b"]" * depth + b"\n", *lines[number + 1 :]]


def _edit_fields(lines: Lines, choice: random.Random, value: Callable[[], Any]) -> Lines:
    """One field of one line replaced, removed, renamed, or, where it is a list, emptied, cut or doubled."""
    number = 0 if choice.random() < 0.25 else choice.randrange(len(lines))
    try:
        fields = json.loads(lines[number])
    except (ValueError, RecursionError):
        return lines
    places = list(_places(fields))
    if not places:
        return lines
    holder, key = choice.choice(places)
    edit = choice.choice(("replace", "replace", "replace", "remove", "rename", "list"))
    if edit == "remove":
        del holder[key]
    elif edit == "rename" and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif edit == "list" and isinstance(holder[key], list):
        items = holder[key]
        holder[key] = choice.choice(([], items[:-1], items[1:], [*items, *items[-1:]], items[::-1]))
    elif isinstance(holder[key], int | float) and choice.random() < 0.5:
        holder[key] = choice.choice((-holder[key], holder[key] * 1e12, holder[key] + 1, str(holder[key])))
    else:
        holder[key] = value()
    return [*lines[:number], json.dumps(fields).encode() + b"\n", *lines[number + 1 :]]


def _places(fields: Any) -> Any:
    """Every place of a value, as the dictionary or list that holds it and its key there."""
    if isinstance(fields, dict | list):
        for key in fields if isinstance(fields, dict) else range(len(fields)):
            yield fields, key
            yield from _places(fields[key])


def _drop(lines: Lines, choice: random.Random) -> Lines:
    number = choice.randrange(len(lines))
    return lines[:number] + lines[number + 1 :]


def _double(lines: Lines, choice: random.Random) -> Lines:
    number = choice.randrange(len(lines))
    return [*lines[: number + 1], *lines[number:]]


def _swap(lines: Lines, choice: random.Random) -> Lines:
    moved = list(lines)
    first, second = choice.randrange(len(lines)), choice.randrange(len(lines))
    moved[first], moved[second] = moved[second], moved[first]
    return moved


def _cut(lines: Lines, choice: random.Random) -> Lines:
    content = b"".join(lines)
    return content[: choice.randrange(len(content) + 1)].splitlines(keepends=True)


def _flip(lines: Lines, choice: random.Random) -> Lines:
    content = bytearray(b"".join(lines))
    for _ in range(choice.choice((1, 1, 8))):
        content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    return bytes(content).splitlines(keepends=True)


def _insert(lines: Lines, choice: random.Random) -> Lines:
    line = choice.choice((b"\n", b"null\n", b"[]\n", b'{"kind":"end"}\n', b'{"kind":"piece"}\n', b"\x00\xff\n"))
    number = choice.randrange(len(lines) + 1)
    return [*lines[:number], line, *lines[number:]]


EDITS = (_drop, _double, _swap, _cut, _flip, _insert, _nest)
