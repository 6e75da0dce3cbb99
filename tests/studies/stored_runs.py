"""The run files of earlier releases that are kept in tests/data, and a way to make hostile ones of them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from stopwav.record import Record, Result
from stopwav.studies.study import results

DATA = Path(__file__).parent.parent / "data"
REAL = DATA / "latency-real.jsonl"
FAILURES = DATA / "latency-failures.jsonl"

# What people and attackers put into names, messages and transcripts.
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a | b \\| c `code` ``x`` **bold** _em_ ~~no~~ [link](http://x.example) ![i](y)",
    "\u202egnp.exe\u2066 \u200f",
    "line one\nline two\r\n# heading\n\n- item\n| a | b |\n|---|---|",
    "\x1b[31mred\x1b]0;title\x07",
    '=HYPERLINK("http://x.example","y")',
    "@everyone #1 &lt; &#60; www.x.example http://x.example",
    "漢字" * 60,
    "e\u0301" * 50,
    "lone \ud800 surrogate",
    "w" * 100_000,
    "",
)


@cache
def found_in(path: Path) -> tuple[Record, list[Result]]:
    """A stored run and its results."""
    record = Record.read(path)
    return record, results(record)


def results_of(path: Path) -> list[Result]:
    """The results of a stored run."""
    return found_in(path)[1]


def changed(source: Path, target: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    """A copy of a run file in which `change` has changed the lines."""
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    change(lines)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def renamed(source: Path, target: Path, name: str) -> Path:
    """A copy of a run file in which the first engine has another name."""

    def change(lines: list[dict[str, Any]]) -> None:
        old = lines[0]["spec"]["engines"][0]
        lines[0]["spec"]["engines"][0] = name
        for line in lines[1:]:
            if line["kind"] == "piece" and line["key"][2] == old:
                line["key"][2] = name

    return changed(source, target, change)
