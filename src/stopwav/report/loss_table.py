"""A loss run in the terminal: the table that the field knows, with intervals, ranks and the padding line."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.record import Result
from stopwav.report.latency_table import every_metric_table, print_cautions
from stopwav.report.loss_findings import loss_findings
from stopwav.report.loss_layout import LossTable, legend, loss_tables
from stopwav.report.plain import plain

# Narrower terminals show the step without its interval, which `--all` has.
INTERVALS_FROM = 96


def print_loss(results: Sequence[Result], console: Console, *, every_metric: bool = False) -> None:
    """Print a table per setting, the padding, the cautions and a sentence on each finding."""
    console.print(Text(_title(results[0])))
    for table in loss_tables(results, intervals=console.width >= INTERVALS_FROM):
        console.print(Text(f"\n{table.title}", style="bold"))
        console.print(_rendered(table))
        console.print(Text(table.about, style="dim"))
    for line in legend(results):
        console.print(Text(line))
    console.print()
    if every_metric:
        for result in results:
            if result.metrics:
                console.print(every_metric_table(result))
    print_cautions(results, console)
    for finding in loss_findings(results):
        console.print(Text(finding, style="bold"))


def _title(result: Result) -> str:
    params = result.params
    rounds = "1 round" if params["rounds"] == 1 else f"{params['rounds']} rounds"
    where = f"{plain(str(params['device']))}, {params['dtype']}, outputs of {params['dim']}"
    return f"Transducer losses on {where}, {rounds}; peak memory is over the inputs; [95 % interval]"


def _rendered(table: LossTable) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(table.headings):
        # Names may be folded, numbers never.
        is_name = index == 1
        shown.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    return shown
