"""A comparison in the terminal: one card with a column per engine, readable at 80 columns without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.record import Result
from stopwav.report.compare_layout import (
    Layout,
    arrange,
    card_rows,
    findings,
    length_note,
    missing_notes,
    pareto_text,
    verdict_rows,
)
from stopwav.report.compare_parts import LABEL, length_tables, lists
from stopwav.report.latency_table import every_metric_table, print_cautions
from stopwav.report.text import DASH, plain
from stopwav.studies.compare.card import Card

# Beyond this a name is cut in the list of engines; their options stand at the end.
LONGEST_NAME = 100
# What a cell and the gap before it take of the line beside their text.
GAP = 3


def print_compare(results: Sequence[Result], card: Card, console: Console, *, every_metric: bool = False) -> None:
    """Print the card, the verdicts, latency and energy over length, what was expected, cautions and findings."""
    layout = arrange(results)
    _print_title(layout, console)
    _print_card(layout, console)
    if card.verdicts:
        headings, rows = verdict_rows(layout, card)
        _print_table(console, "Verdicts", headings, rows)
        console.print(Text(LABEL, style="dim"))
    for title, headings, rows in length_tables(layout, card):
        _print_table(console, title, headings, rows)
    for heading, lines in lists(layout, card):
        console.print(Text(f"\n{heading}", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    console.print()
    if every_metric:
        for result in results:
            if result.metrics:
                console.print(every_metric_table(result))
    print_cautions([*layout.engines, *(one for one in layout.lengths.values() if one.warnings)], console)
    if len(layout.engines) > 1:
        console.print(Text(pareto_text(layout, card), style="bold"))
    for finding in findings(layout, card):
        console.print(Text(finding, style="bold"))


def _print_title(layout: Layout, console: Console) -> None:
    params = layout.engines[0].params
    rounds = "1 round" if params["rounds"] == 1 else f"{params['rounds']} rounds"
    told = f"{params['samples']} samples of corpus {plain(str(params['corpus']), 40)}, {rounds}; [95 % interval]"
    console.print(Text(told))
    for engine in layout.engines:
        console.print(Text(f"{layout.letter(engine.name)}  {plain(engine.name, LONGEST_NAME)}", style="bold"))


def _print_card(layout: Layout, console: Console) -> None:
    letters = [layout.letter(engine.name) for engine in layout.engines]
    rows = [[label, *cells] for label, cells in card_rows(layout)]
    if _width(rows) > console.width:
        rows = [[label, *cells] for label, cells in card_rows(layout, intervals=False)]
    _print_table(console, "", ["", *letters], rows)
    console.print(Text(length_note(layout), style="dim"))
    for note in missing_notes(layout):
        console.print(Text(f"{DASH}  {plain(note)}", style="dim"))


def _print_table(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; where it is too wide, as many columns at a time as fit, each time with the first."""
    if title:
        console.print(Text(f"\n{title}", style="bold"))
    widths = [max(cell_len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    start = 1
    while start < len(headings):
        end, room = start + 1, console.width - widths[0] - GAP - widths[start]
        while end < len(headings) and room - GAP - widths[end] >= 0:
            room -= GAP + widths[end]
            end += 1
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in (0, *range(start, end)):
            shown.add_column(headings[column], justify="left" if column == 0 else "right", no_wrap=True)
        for row in rows:
            shown.add_row(*(Text(row[column]) for column in (0, *range(start, end))))
        console.print(shown)
        start = end


def _width(rows: Sequence[Sequence[str]]) -> int:
    return sum(GAP + max(map(cell_len, column)) for column in zip(*rows, strict=True)) if rows else 0
