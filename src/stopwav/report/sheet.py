"""A titled table with notes below it, for the terminal: what the tools for the user's own code print."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.report.numbers import DASH, format_number
from stopwav.report.plain import plain

# A file or a pipe has no width: wide enough for every column of ours beside a long name.
FILE_WIDTH = 140
# A longer name is folded on a terminal that is too narrow for the table; its lines are then broken by the terminal.
LEAST_NAME_WIDTH = 20


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
    console = Console(
        stderr=True, width=max(terminal.width, _least_width(sheet)) if terminal.is_terminal else FILE_WIDTH
    )
    with console.capture() as drawn:
        _draw(sheet, console)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with suppress(OSError):  # such as a pipe whose reader has gone
        sys.stderr.write(drawn.get().encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()


def sheet_text(sheet: Sheet) -> str:
    """The sheet as plain text."""
    written = io.StringIO()
    _draw(sheet, Console(file=written, width=FILE_WIDTH))
    return written.getvalue().rstrip("\n")


def format_seconds(seconds: float | None) -> str:
    """Seconds to three digits, in s, ms or µs; a dash where there are none."""
    if seconds is None:
        return DASH
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        # 0.9996 s would be written as 1000 ms: it belongs to the unit above.
        if abs(seconds) * scale >= 0.9995 or unit == "µs":
            break
    value = seconds * scale
    return f"{format_number(value, sum(abs(value) < limit for limit in (9.995, 99.95)))} {unit}"


def _least_width(sheet: Sheet) -> int:
    """The columns below which numbers or names would be cut off."""
    widths = [0]
    for _, headings, rows in sheet.sections:
        name, *numbers = (max(map(cell_len, column)) for column in zip(headings, *rows, strict=True))
        widths.append(min(name, LEAST_NAME_WIDTH) + sum(numbers) + 2 * len(numbers))
    return max(widths)


def _draw(sheet: Sheet, console: Console) -> None:
    for title, headings, rows in sheet.sections:
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="")
        drawn.title = Text(plain(title)) if title else None
        for index, heading in enumerate(headings):
            if index == 0:
                drawn.add_column(Text(heading), overflow="fold")
            else:
                drawn.add_column(Text(heading), justify="right", no_wrap=True)
        for row in rows:
            drawn.add_row(*(Text(plain(item)) for item in row))
        console.print(drawn)
    for note in sheet.notes:
        console.print(Text(plain(note), style="dim"), soft_wrap=True)
