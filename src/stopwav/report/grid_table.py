"""A grid in the terminal: rows are durations, columns batch sizes, readable at 80 columns without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.record import Result
from stopwav.report.grid_findings import grid_findings
from stopwav.report.grid_layout import (
    GridTable,
    Layout,
    absent_note,
    arrange,
    by_place,
    frontier_text,
    interval_text,
    law_text,
    pace_note,
    prediction_text,
    tables,
)
from stopwav.report.latency_table import every_metric_table, print_cautions
from stopwav.report.plain import plain

# What a cell and the gap before it take of the line beside their text.
GAP = 3
LABEL = 8


def print_grid(
    results: Sequence[Result], console: Console, *, scientific: bool = False, every_metric: bool = False
) -> None:
    """Print the tables, the laws, the cautions and a sentence on each finding."""
    layout = arrange(results)
    console.print(Text(_title(layout)))
    for table in tables(layout, scientific=scientific):
        # Not as the table's own title, which would be broken to the width of a narrow one.
        console.print(Text(f"\n{table.title}", style="bold"))
        for columns in _beside(table, console.width):
            console.print(_rendered(table, layout, columns))
    console.print(Text(pace_note(layout)))
    _print_lines(console, "", [absent_note(layout)], dim=True)
    _print_lines(console, "How the time of a batch grows with its duration d", _laws(layout, "duration"))
    _print_lines(console, "How it grows with the batch size B", _laws(layout, "batch size"))
    _print_lines(console, "Predictions, not measurements", [prediction_text(law) for law in layout.laws])
    _print_lines(console, "Largest batch that fits", [frontier_text(one) for one in layout.frontier])
    console.print()
    if every_metric:
        for result in [*layout.measured, *layout.laws]:
            console.print(every_metric_table(result))
    print_cautions(by_place(layout), console)
    for finding in grid_findings(results):
        console.print(Text(finding, style="bold"))


def _title(layout: Layout) -> str:
    params = next(iter(layout.cells.values())).params
    rounds = "1 round" if params["rounds"] == 1 else f"{params['rounds']} rounds"
    return (
        f"{plain(layout.engine, 80)} on {plain(str(params['device']))}, audio {plain(str(params['audio']), 60)}, "
        f"{rounds}; rows: seconds of audio, columns: batch size; [{interval_text(layout)}]"
    )


def _laws(layout: Layout, axis: str) -> list[str]:
    return [law_text(law) for law in layout.laws if law.params["axis"] == axis]


def _widths(table: GridTable) -> list[int]:
    return [max(cell_len(cell) for cell in column) for column in zip(*table.rows, strict=True)]


def _beside(table: GridTable, width: int) -> Iterator[range]:
    """The columns, as many at a time as fit beside each other."""
    widths = _widths(table)
    start = 0
    while start < len(widths):
        end, room = start + 1, width - LABEL - GAP - widths[start]
        while end < len(widths) and room - GAP - widths[end] >= 0:
            room -= GAP + widths[end]
            end += 1
        yield range(start, end)
        start = end


def _rendered(table: GridTable, layout: Layout, columns: range) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("", no_wrap=True)
    for column in columns:
        shown.add_column(f"× {layout.batch_sizes[column]}", justify="right", no_wrap=True)
    for duration_s, row in zip(layout.durations, table.rows, strict=True):
        shown.add_row(Text(f"{duration_s:g} s"), *(Text(row[column]) for column in columns))
    return shown


def _print_lines(console: Console, heading: str, lines: Sequence[str], *, dim: bool = False) -> None:
    told = [line for line in lines if line]
    if told and heading:
        console.print(Text(f"\n{heading}", style="bold"))
    for line in told:
        console.print(Text(f"  {line}" if heading else line, style="dim" if dim else ""))
