"""The losses of a run under the profiler, as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.report.document import Block, Cell, Column, Figures, Medium, Note, Row, Section, Table
from stopwav.report.text import format_number, plain
from stopwav.studies.loss.traces import profiles_of, recorded_text

# Operators and kernels that are listed, and what is shown of their names, which may fill a page.
MOST_PROFILED, LONGEST_NAME = 20, 60
PAGE_AND_FILE: tuple[Medium, ...] = ("markdown", "page")


def profile_sections(record: Record) -> list[Section]:
    """Return the operators, the kernels and the memory of each loss under the profiler."""
    profiles = profiles_of(record)
    if not profiles:
        return []
    about = Note(
        "Under torch.profiler, which slows steps down: read which operator is large, not how long it takes. Operators "
        "and kernels are of all recorded steps, memory of the first trace."
    )
    blocks = [block for number, piece in enumerate(profiles, start=1) for block in _profile(piece, number)]
    return [Section("Under the profiler", (about, *blocks), media=PAGE_AND_FILE)]


def _profile(piece: Piece, number: int) -> list[Block]:
    where, idle = f"{plain(str(piece.key[1]), 40)} ({piece.key[2]})", piece.data["idle_share"]
    busy = "" if idle is None else f"; the device was idle {100 * idle:.1f} % of the time"
    tables = [
        _profile_table(f"Operators of {where}", ("operator", "calls", "self ms", "total ms"), piece.data["operators"]),
        _profile_table(f"Kernels of {where}", ("kernel", "calls", "total ms"), piece.data["kernels"]),
    ]
    drawn = Figures(((f"profile-{number}",),))
    return [
        *(table for table in tables if table.rows),
        Note(f"{recorded_text(piece)}{busy}. {', '.join(piece.data['files'])}"),
        drawn,
    ]


def _profile_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[Any]]) -> Table:
    """A table of names, calls and times in seconds."""
    rows = [
        Row((Cell(plain(name, LONGEST_NAME)), Cell(str(calls)), *(Cell(format_number(1e3 * s, 2)) for s in times)))
        for name, calls, *times in lines[:MOST_PROFILED]
    ]
    return Table((Column(headings[0], "left", shorten=True), *map(Column, headings[1:])), tuple(rows), title=title)
