"""Titled tables with notes below them, on standard error: what the tools for the user's own code print."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console

from stopwav.report.document import Cell, Column, Document, Note, Row, Table
from stopwav.report.terminal import print_document
from stopwav.report.text import DASH, format_number

# A file or a pipe has no width: wide enough for every column of ours and a long name.
FILE_WIDTH = 140

Section = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # a title, headings, rows whose first item is a name


@dataclass(frozen=True)
class Sheet:
    """Tables, one below the other, and notes for all of them."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def print_sheet(sheet: Sheet) -> None:
    """Print the sheet to standard error: standard output belongs to the user's own program.

    Nor is that program to end over a table: what standard error cannot take is replaced or left out.
    """
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        return
    terminal = Console(stderr=True)
    console = terminal if terminal.is_terminal else Console(stderr=True, width=FILE_WIDTH)
    with console.capture() as drawn:
        print_document(_document(sheet), console)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with suppress(OSError):  # such as a pipe whose reader has gone
        sys.stderr.write(drawn.get().encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()


def sheet_text(sheet: Sheet) -> str:
    """Return the sheet as plain text."""
    written = io.StringIO()
    print_document(_document(sheet), Console(file=written, width=FILE_WIDTH))
    return written.getvalue().rstrip("\n")


def format_seconds(seconds: float | None) -> str:
    """Return seconds to three digits, in s, ms or µs; a dash where there are none."""
    if seconds is None:
        return DASH
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        # 0.9996 s would be written as 1000 ms: it belongs to the unit above.
        if abs(seconds) * scale >= 0.9995 or unit == "µs":
            break
    value = seconds * scale
    return f"{format_number(value, sum(abs(value) < limit for limit in (9.995, 99.95)))} {unit}"


def _document(sheet: Sheet) -> Document:
    tables = []
    for title, headings, rows in sheet.sections:
        columns = [
            Column(heading, "right" if index else "left", fold=not index) for index, heading in enumerate(headings)
        ]
        tables.append(Table(tuple(columns), tuple(Row(tuple(map(Cell, row))) for row in rows), title))
    return Document("", (*tables, *(Note(note) for note in sheet.notes)))
