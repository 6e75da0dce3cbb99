"""A document in the terminal: tables that fit the width without colour, warnings, then the findings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from stopwav.record import Result
from stopwav.report.document import Block, Cell, Column, Document, Lines, Missing, Note, Row, Table, shown
from stopwav.report.numbers import DASH, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.report.warnings import footnotes

# The characters between two columns, at both edges together, and before a row under a heading.
GAP = 3
EDGES = 2
INDENT = "  "
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
    """The table in parts that fit the width, and whether they go without intervals."""
    if _width(table, short=False) > width and any(column.wide for column in table.columns):
        table = _chosen(table, [index for index, column in enumerate(table.columns) if not column.wide])
    short = False
    if _width(table, short=False) > width and len(table.columns) - 1 > KEEP_INTERVALS:
        short = True
    if _width(table, short) <= width:
        yield table, short
        return
    widths = _widths(table, short)
    start = first = table.label + 1
    while start < len(widths):
        end = start + 1
        while end < len(widths) and _total([*widths[:first], *widths[start : end + 1]]) <= width:
            end += 1
        yield _chosen(table, [*range(first), *range(start, end)]), short
        start = end


def _chosen(table: Table, indices: Sequence[int]) -> Table:
    """The table with some of its columns."""
    rows = tuple(
        row if row.heading else Row(tuple(row.cells[index] for index in indices), row.depth) for row in table.rows
    )
    return Table(tuple(table.columns[index] for index in indices), rows, label=table.label)


def _width(table: Table, short: bool) -> int:
    return _total(_widths(table, short))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1) + EDGES


def _widths(table: Table, short: bool) -> list[int]:
    rows = [row for row in table.rows if not row.heading]
    widths = []
    for index, column in enumerate(table.columns):
        texts = [f"{INDENT * _is_grouped(table) if not index else ''}{_text(row, index, short)}" for row in rows]
        # A heading may be folded to its column, a number may not; a text that folds needs little.
        heading = min(cell_len(column.heading), _room(table)) if index else cell_len(column.heading)
        widest = max([heading, *map(cell_len, texts)], default=0)
        widths.append(min(widest, column.least) if column.fold else widest)
    return widths


def _is_grouped(table: Table) -> bool:
    return any(row.heading for row in table.rows)


def _room(table: Table) -> int:
    """The least width of a heading: read downwards, a narrower one would not be."""
    return 6 if _is_grouped(table) else 1000


def _text(row: Row, index: int, short: bool) -> str:
    cell = row.cells[index]
    indent = "  " * row.depth if index == 0 else ""
    text = cell.short if short and cell.short is not None else cell.text
    return f"{indent}{plain(text)}" + (f"  {bar(cell.bar)}" if cell.bar is not None else "")


def _rich_table(table: Table, short: bool, width: int) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = _widths(table, short)
    spare = max(0, width - _width(table, short)) // max(1, len(table.columns) - 1)
    for index, column in enumerate(table.columns):
        heading = _broken(plain(column.heading), widths[index] + (spare if index else 0)) if index else column.heading
        drawn.add_column(
            Text(heading), justify=column.align, no_wrap=not column.fold, overflow="fold" if column.fold else "ellipsis"
        )
    room = widths[0] + max(0, width - _width(table, short))
    for number, row in enumerate(table.rows):
        if row.heading:
            if number:
                drawn.add_row()
            drawn.add_row(Text(plain(row.cells[0].text), style="bold"))
            continue
        texts = [_text(row, index, short) for index in range(len(table.columns))]
        if _is_grouped(table):
            texts[0] = textwrap.fill(texts[0], room, initial_indent=INDENT, subsequent_indent=2 * INDENT)
        drawn.add_row(*map(Text, texts))
    return drawn


def _broken(heading: str, width: int) -> str:
    """The heading in lines of at most that width: names that differ late must be told apart."""
    lines = [""]
    for char in heading:
        if cell_len(lines[-1] + char) > max(width, 1):
            lines.append("")
        lines[-1] += char
    return "\n".join(lines)


def bar(share: float) -> str:
    """Return a bar for a share of 1."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)
