"""The objects of a JSON file, one per line or all in one list, plain or compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.speech.utterance import Line, Problem, one_line, read_lines

SUFFIXES = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")


@dataclass(frozen=True)
class Entry:
    """An object of a file, and its place there."""

    where: str
    fields: dict[str, Any]


def is_json(path: Path) -> bool:
    """Whether the name of a file says that it is one of JSON."""
    return path.name.lower().endswith(SUFFIXES)


def read_entries(path: Path) -> tuple[list[Entry], list[Problem]]:
    """Return the objects of a file, and a problem for each line that has none."""
    lines, problems = read_lines(path)
    entries: list[Entry] = []
    for where, item in _list_items(path, lines) or _line_items(lines):
        if isinstance(item, dict):
            entries.append(Entry(where, item))
        else:
            problem = item if isinstance(item, str) else f"a {type(item).__name__}, not an object"
            problems.append(Problem(where, f"{problem}; write one object per line, {{…}} with the keys"))
    return entries, problems


def _list_items(path: Path, lines: list[Line]) -> list[tuple[str, Any]]:
    """The items of a file that is one list; none where it is not."""
    if not lines or not lines[0].text.startswith("["):
        return []
    try:
        items = json.loads("\n".join(line.text for line in lines))
    except (ValueError, RecursionError):
        return []
    return [(f"{path.name}, entry {number}", item) for number, item in enumerate(items, start=1)]


def _line_items(lines: list[Line]) -> Iterator[tuple[str, Any]]:
    for line in lines:
        try:
            item = json.loads(line.text)
        except (ValueError, RecursionError) as error:  # ValueError also for integers with thousands of digits
            yield line.where, f"not JSON ({one_line(str(error))[:80]})"
        else:
            yield line.where, [item] if isinstance(item, str) else item
