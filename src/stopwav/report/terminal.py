"""A document in the terminal: tables that fit the width without colour, warnings, then the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, OverflowMethod
from rich.table import Table as RichTable
from rich.text import Text

from stopwav.record import Result
from stopwav.report.document import Block, Cell, Column, Document, Lines, Missing, Note, Row, Table, shown
from stopwav.report.numbers import DASH, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.report.warnings import LONGEST_NAME, footnotes

# The characters between two columns; what a text that folds takes at the least, and a heading that is broken.
GAP = 3
LEAST_FOLDED = 12
LEAST_HEADING = 8
# Intervals are worth a table per column for so many columns of numbers; of more, the values alone are compared first.
KEEP_INTERVALS = 2
BAR_WIDTH = 8
# An eighth of a character is the finest bar that a terminal draws.
EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_document(document: Document, console: Console, *, every_metric: bool = False) -> None:
    """Print the blocks, every metric where that is asked for, the warnings, and a sentence per finding."""
    for block in shown(document.blocks, "terminal"):
        _print_block(block, console)
    if every_metric:
        for result in document.measured:
            if result.metrics:
                _print_table(metrics_table(result), console)
    print_warnings(document.warned, console)
    for finding in document.findings:
        console.print(Text(plain(finding, 1000), style="bold"))


def print_warnings(results: Sequence[Result], console: Console) -> None:
    """Print each warning once, with the results it is about where it is not about all."""
    notes = footnotes(results)
    for note in notes:
        console.print(Text(f"! {plain(note.code)}: {note.text}", style="yellow"))
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
        interval = format_interval(estimate, most=9).partition(" ")[2]
        texts = (name, format_value(estimate, most=9), interval, str(estimate.n or ""), estimate.unit)
        rows.append(Row(tuple(map(Cell, texts))))
    return Table(columns, tuple(rows), title=result.name)


def _print_block(block: Block, console: Console) -> None:
    if isinstance(block, Table):
        _print_table(block, console)
    elif isinstance(block, Lines):
        console.print(Text(f"\n{plain(block.title)}", style="bold"))
        for line in block.lines:
            console.print(Text(f"  {plain(line)}"))
        console.print()
    elif isinstance(block, Note):
        console.print(Text(plain(block.text), style="dim" if block.quiet else ""))
    elif isinstance(block, Missing):
        for reason in block.reasons:
            console.print(Text(f"{DASH}  {plain(reason)}", style="dim"))
        if block.reasons:
            console.print()


def _print_table(table: Table, console: Console) -> None:
    if table.title:
        # Not as the table's own title, which would be broken to the width of a narrow one.
        console.print(Text(f"\n{plain(table.title)}", style="bold"))
    for part, short in _parts(table, console.width):
        console.print(_rich_table(part, short, console.width))
    for note in table.notes:
        console.print(Text(plain(note), style="dim"))


def _parts(table: Table, width: int) -> Iterator[tuple[Table, bool]]:
    """The table in parts that fit the width, each with the columns up to its label; whether without intervals."""
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
        end, room = start + 1, width - sum(widths[:named]) - GAP * named - widths[start]
        while end < len(widths) and room - GAP - widths[end] >= 0:
            room -= GAP + widths[end]
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
    return sum(_widths(table, short)) + GAP * len(table.columns)


def _widths(table: Table, short: bool) -> list[int]:
    """The least width of each column: numbers whole, headings broken where they have to be."""
    rows = [row for row in table.rows if not row.heading]
    widths = []
    for index, column in enumerate(table.columns):
        longest_word = max(map(cell_len, plain(column.heading, LONGEST_NAME).split()), default=0)
        widest = max([0, *(cell_len(_text(table, row, index, short)) for row in rows)])
        widest = min(widest, LEAST_FOLDED) if column.fold else widest
        widths.append(max(widest, min(longest_word, LEAST_HEADING)))
    return widths


def _text(table: Table, row: Row, index: int, short: bool) -> str:
    cell = row.cells[index]
    # Rows below a heading of their own stand in from it.
    depth = row.depth + any(other.heading for other in table.rows) if index == 0 else 0
    text = cell.short if short and cell.short is not None else cell.text
    return f"{'  ' * depth}{plain(text)}" + (f"  {bar(cell.bar)}" if cell.bar is not None else "")


def _rich_table(table: Table, short: bool, width: int) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = _widths(table, short)
    spare = max(0, width - _width(table, short)) // len(table.columns)
    for index, column in enumerate(table.columns):
        heading = "\n".join(_broken(plain(column.heading, LONGEST_NAME), widths[index] + spare))
        overflow: OverflowMethod = "fold" if column.fold else "ellipsis"
        drawn.add_column(Text(heading), justify=column.align, no_wrap=not column.fold, overflow=overflow)
    for number, row in enumerate(table.rows):
        if row.heading:
            if number:
                drawn.add_row()
            drawn.add_row(Text(plain(row.cells[0].text), style="bold"))
        else:
            drawn.add_row(*(Text(_text(table, row, index, short)) for index in range(len(table.columns))))
    return drawn


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
