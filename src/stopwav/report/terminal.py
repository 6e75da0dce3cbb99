"""A document in the terminal: tables that fit the width without colour, then the findings; also tables of profiles."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, OverflowMethod
from rich.segment import Segments
from rich.table import Table as RichTable
from rich.text import Text

from stopwav.record import Result
from stopwav.report.document import (
    LONGEST_LINE,
    LONGEST_NAME,
    LONGEST_NOTE,
    Block,
    Cell,
    Column,
    Document,
    Lines,
    Medium,
    Missing,
    Note,
    Row,
    Table,
    footnotes,
    legend,
    shown,
)
from stopwav.report.text import DASH, format_ends, format_number, format_value, plain

# The characters between two columns, and the least width of a heading that is broken.
GAP = 3
LEAST_HEADING = 8
# No word of our own headings is longer; a name of an engine has no spaces, and is broken anywhere.
LEAST_WORD = 12
# Intervals are worth a table per column for so many columns of numbers; of more, the values alone are compared first.
KEEP_INTERVALS = 2
BAR_WIDTH = 8
# Results that a warning names where there is little room.
MOST_NAMES = 3
# A percentage with a mark: bars begin below each other where the text after them is no longer.
BARRED_TEXT = 8
# An eighth of a character is the finest bar that a terminal draws.
EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_document(document: Document, console: Console, *, every_metric: bool = False) -> None:
    """Print a sentence per finding, the blocks, and the warnings; with `every_metric`, all that there is of each."""
    medium: Medium = "terminal" if every_metric else "brief"
    blocks = shown(document.blocks, medium)
    has_more = not every_metric and (blocks != shown(document.blocks, "terminal") or bool(document.measured))
    if every_metric:
        blocks += [metrics_table(result) for result in document.measured if result.metrics]
    blocks += legend(document, medium, every_metric)
    for finding in document.findings:
        console.print(Text(plain(finding, LONGEST_NOTE), style="bold"))
    if document.findings and blocks:
        console.print()
    for block in blocks:
        _print_block(block, console)
    if blocks and isinstance(blocks[-1], Note):
        console.print()
    print_warnings(document.warned, console, every_one=every_metric)
    if has_more:
        console.print(Text("more: --all", style="dim"))


def print_warnings(results: Sequence[Result], console: Console, *, every_one: bool = True) -> None:
    """Print each warning once, with the results it is about where it is not about all; or one of each code."""
    notes = footnotes(results)
    codes = [note.code for note in notes]
    for position, note in enumerate(notes):
        text, like_it = note.text, codes.count(note.code) - 1
        if not every_one:
            if note.code in codes[:position]:
                continue
            text = note.text_of(MOST_NAMES) + (f" ({like_it} more like it: --all)" if like_it else "")
        console.print(Text(f"! {plain(note.code)}: {text}", style="yellow"))
    if notes:
        console.print()


def metrics_table(result: Result) -> Table:
    """Return the table of every metric of a result with its interval."""
    columns = (
        Column("metric", "left", fold=True),
        *(Column(heading) for heading in ("value", "95 % interval", "n")),
        Column("unit", "left"),
    )
    rows = []
    for name, estimate in result.metrics.items():
        # Seconds as they are stored: nine decimals are nanoseconds, which a cell of a loss takes.
        interval = format_ends(estimate, most=9)
        texts = (name, format_value(estimate, most=9), interval, str(estimate.n or ""), estimate.unit)
        rows.append(Row(tuple(map(Cell, texts))))
    return Table(columns, tuple(rows), title=result.name)


def _print_block(block: Block, console: Console) -> None:
    if isinstance(block, Table):
        _print_table(block, console)
    elif isinstance(block, Lines):
        console.print(Text(f"\n{plain(block.title)}", style="bold"))
        for line in block.lines:
            console.print(Text(f"  {plain(line, LONGEST_LINE)}"))
        console.print()
    elif isinstance(block, Note):
        console.print(Text(plain(block.text, LONGEST_NOTE), style="dim" if block.quiet else ""))
    elif isinstance(block, Missing):
        for reason in block.reasons:
            console.print(Text(f"{DASH}  {plain(reason, LONGEST_LINE)}", style="dim"))
        if block.reasons:
            console.print()


def _print_table(table: Table, console: Console) -> None:
    if table.title:
        # Not as the table's own title, which would be broken to the width of a narrow one.
        console.print(Text(f"\n{plain(table.title)}", style="bold"))
    for part, short in _parts(table, console.width):
        # A terminal too narrow for a name and one number gets lines that are too long rather than half a number.
        room = console.options.update(width=max(console.width, _width(part, short)))
        drawn = Segments(console.render(_rich_table(part, short, console.width), room))
        console.print(drawn, soft_wrap=True, end="")
    for note in table.notes:
        console.print(Text(plain(note, LONGEST_LINE), style="dim"))


def _parts(table: Table, width: int) -> Iterator[tuple[Table, bool]]:
    """The parts of a table that fit the width, each with the columns up to its label, and whether intervals go."""
    if _width(table, short=False) > width and any(column.wide for column in table.columns):
        table = _chosen(table, [index for index, column in enumerate(table.columns) if not column.wide])
    named, numbers = table.label + 1, len(table.columns) - table.label - 1
    short = _width(table, short=False) > width and numbers > KEEP_INTERVALS
    if _width(table, short) <= width:
        yield table, short
        return
    widths = _widths(table, short)
    start = named
    while start < len(widths):
        end = start + 1
        while end < len(widths) and _room([*widths[:named], *widths[start : end + 1]], width) >= 0:
            end += 1
        yield _chosen(table, [*range(named), *range(start, end)]), short
        start = end


def _chosen(table: Table, indices: Sequence[int]) -> Table:
    """The table with some of its columns."""
    rows = tuple(
        row if row.heading else replace(row, cells=tuple(row.cells[index] for index in indices)) for row in table.rows
    )
    return replace(table, columns=tuple(table.columns[index] for index in indices), rows=rows)


def _width(table: Table, short: bool) -> int:
    return -_room(_widths(table, short), 0)


def _widths(table: Table, short: bool) -> list[int]:
    """The least width of each column: numbers whole, headings broken where they have to be."""
    rows = [row for row in table.rows if not row.heading]
    # Names give way before the words of a heading do.
    least_heading = LONGEST_NAME if any(column.shorten for column in table.columns) else LEAST_HEADING
    widths = []
    for index, column in enumerate(table.columns):
        longest_word = max(map(cell_len, plain(column.heading, LONGEST_NAME).split()), default=0)
        widest = max([0, *(cell_len(_text(table, row, index, short)) for row in rows)])
        widest = min(widest, column.least) if column.fold or column.shorten else widest
        least = max(least_heading, LEAST_WORD) if " " in column.heading else least_heading
        widths.append(max(widest, min(longest_word, least)))
    return widths


def _final_widths(table: Table, short: bool, width: int) -> list[int]:
    """The width of each column: what folds or is cut shares the room left, for whole words, then for whole lines."""
    widths = _widths(table, short)
    flexible = [index for index, column in enumerate(table.columns) if column.fold or column.shorten]
    rows = [row for row in table.rows if not row.heading]
    headings = {index: plain(table.columns[index].heading, LONGEST_NAME) for index in flexible}
    texts = {index: [headings[index], *(_text(table, row, index, short) for row in rows)] for index in flexible}
    lines = {index: max([0, *map(cell_len, texts[index])]) for index in flexible}
    words = {index: max([0, *(cell_len(word) for text in texts[index] for word in text.split())]) for index in flexible}
    # Of numbers, the words of the heading.
    for index in set(range(len(widths))) - set(flexible):
        heading = plain(table.columns[index].heading, LONGEST_NAME)
        words[index] = max(map(cell_len, heading.split()), default=0)
    for needed in (words, lines):
        while _room(widths, width) > 0 and any(widths[index] < needed[index] for index in needed):
            widths[max(needed, key=lambda index: needed[index] / max(1, widths[index]))] += 1
    return widths


def _room(widths: Sequence[int], width: int) -> int:
    return width - sum(widths) - GAP * len(widths) + 1


def _text(table: Table, row: Row, index: int, short: bool) -> str:
    cell = row.cells[index]
    # Rows below a heading of their own stand in from it.
    depth = row.depth + any(other.heading for other in table.rows) if index == 0 else 0
    text = plain(cell.short if short and cell.short is not None else cell.text, table.columns[index].longest)
    return f"{'  ' * depth}{text}" if cell.bar is None else f"{bar(cell.bar)}  {text:>{BARRED_TEXT}}"


def _rich_table(table: Table, short: bool, width: int) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = _final_widths(table, short, width)
    spare = max(0, _room(widths, width)) // len(widths)
    for index, column in enumerate(table.columns):
        heading = "\n".join(_broken(plain(column.heading, LONGEST_NAME), widths[index] + spare))
        overflow: OverflowMethod = "fold" if column.fold else "ellipsis"
        chosen = widths[index] if column.fold or column.shorten else None
        drawn.add_column(Text(heading), justify=column.align, no_wrap=not column.fold, overflow=overflow, width=chosen)
    for number, row in enumerate(table.rows):
        if row.heading:
            if number:
                drawn.add_row()
            drawn.add_row(Text(plain(row.cells[0].text), style="bold"))
        else:
            texts = [_text(table, row, index, short) for index in range(len(table.columns))]
            if any(other.heading for other in table.rows):
                texts[0] = _folded(texts[0], widths[0])
            drawn.add_row(*map(Text, texts))
    return drawn


def _folded(label: str, width: int) -> str:
    """The label in lines of at most that width, the further ones set in from the first."""
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    return textwrap.fill(label, max(width, len(indent) + 1), subsequent_indent=indent)


def _broken(heading: str, width: int) -> list[str]:
    """The heading in lines of at most that width, broken between words, and in a word where it is too long."""
    lines = [""]
    for word in heading.split(" "):
        if cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}".strip()
            continue
        lines.append("")
        for char in word:
            if cell_len(lines[-1] + char) > max(1, width):
                lines.append("")
            lines[-1] += char
    return lines if len(lines) == 1 or lines[0] else lines[1:]


def bar(share: float) -> str:
    """Return a bar for a share of 1."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)


# A file or a pipe has no width: wide enough for every column of ours and a long name.
FILE_WIDTH = 140
# That of a terminal which says that it has none (`COLUMNS=0`), and on which nothing at all would be printed.
USUAL_WIDTH = 80

Section = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # a title, headings, rows whose first item is a name


@dataclass(frozen=True)
class Sheet:
    """Tables, one below the other, and notes for all of them."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def open_console(*, stderr: bool = False) -> Console:
    """Return the console of standard output or standard error, without markup, and at least one character wide."""
    console = Console(stderr=stderr, markup=False, highlight=False)
    if console.width >= 1:
        return console
    return Console(stderr=stderr, markup=False, highlight=False, width=USUAL_WIDTH)


def print_sheet(sheet: Sheet) -> None:
    """Print the sheet to standard error."""
    print_aside(_document(sheet))


def sheet_text(sheet: Sheet) -> str:
    """Return the sheet as plain text."""
    return document_text(_document(sheet))


def print_aside(document: Document) -> None:
    """Print the document to standard error: standard output belongs to the user's own program.

    A table must not end that program either: what standard error cannot print is replaced or left out.
    """
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        return
    terminal = open_console(stderr=True)
    console = terminal if terminal.is_terminal else Console(stderr=True, width=FILE_WIDTH)
    with console.capture() as drawn:
        print_document(document, console)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with suppress(OSError):  # such as a pipe whose reader has gone
        sys.stderr.write(drawn.get().encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()


def document_text(document: Document) -> str:
    """Return the document as plain text."""
    written = io.StringIO()
    print_document(document, Console(file=written, width=FILE_WIDTH))
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
