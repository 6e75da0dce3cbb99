"""A step in the terminal: a tree with bars, readable at 80 columns without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.record import Result
from stopwav.report.latency_table import every_metric_table, print_cautions
from stopwav.report.numbers import format_number, format_value
from stopwav.report.plain import plain
from stopwav.report.step_layout import (
    Line,
    StepLayout,
    arrange_step,
    bar,
    cells_of,
    doubt_note,
    label_lines,
    spread_text,
    step_findings,
    summary_lines,
    title_of,
    told_cautions,
)

BAR_WIDTH = 8
# What the columns beside the name take of the line.
BESIDE = 60
BESIDE_WIDE = 104
# From here on parameters, calls and spread fit beside the rest.
WIDE = 130
HEADINGS = ("share", "forward ms", "backward ms", "held", "parameters", "calls")
WIDTHS = (7, 10, 11, 7, 11, 5)


def print_step(
    results: Sequence[Result],
    console: Console,
    *,
    every_metric: bool = False,
    unfold: bool = False,
    labels: str | None = None,
) -> None:
    """Print the tree, the phases, memory, the cautions and the findings; with `labels` the rows of that name alone."""
    layout = arrange_step(results)
    if not layout.step.metrics:
        print_cautions([layout.step], console)
        console.print(Text(step_findings(results)[0], style="bold"))
        return
    console.print(Text(title_of(layout)))
    if labels is not None:
        console.print(_label_table(label_lines(layout, labels)))
        return
    console.print(_tree(layout.lines(unfold=unfold), console.width))
    for line in summary_lines(layout):
        console.print(Text(line))
    if note := doubt_note(layout):
        console.print(Text(note, style="dim"))
    _print_ranks(layout, console)
    _print_profile(layout, console)
    console.print()
    if every_metric:
        for result in [layout.step, *layout.rows]:
            console.print(every_metric_table(result))
    print_cautions(told_cautions(layout), console)
    for finding in step_findings(results):
        console.print(Text(finding, style="bold"))


def _tree(lines: Sequence[Line], width: int) -> Table:
    wide = width >= WIDE
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("", no_wrap=True)
    shown.add_column("", no_wrap=True, min_width=BAR_WIDTH)
    for heading, size in zip(HEADINGS[: 6 if wide else 4], WIDTHS, strict=False):
        shown.add_column(heading, justify="right", no_wrap=True, min_width=size)
    if wide:
        shown.add_column("layers", no_wrap=True)
    for line in lines:
        cells = cells_of(line.row)
        texts = [*(cells if wide else cells[:4]), *([spread_text(line.row)] if wide else [])]
        drawn = Text(bar(line.row.metrics["share"].value or 0.0, BAR_WIDTH), style="cyan")
        name = Text("  " * line.depth + line.name)
        # Numbers are never cut for a name's sake.
        name.truncate(max(12, width - (BESIDE_WIDE if wide else BESIDE)), overflow="ellipsis")
        shown.add_row(name, drawn, *map(Text, texts))
    return shown


def _label_table(rows: Sequence[Result]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("label", no_wrap=True)
    # Short, so that the longest of the classic labels fits beside them.
    for heading in ("share", "fwd ms", "bwd ms", "calls"):
        shown.add_column(heading, justify="right", no_wrap=True, min_width=7 if heading == "share" else 6)
    for row in rows:
        cells = cells_of(row)
        shown.add_row(Text(plain(str(row.params["label"]), 60)), *map(Text, [*cells[:3], cells[5]]))
    return shown


def _print_ranks(layout: StepLayout, console: Console) -> None:
    for rank in layout.ranks:
        wait = 100 * (rank.metrics["communication_share"].value or 0.0)
        step_ms = format_value(rank.metrics["step_time"], 1e3)
        console.print(Text(f"{plain(rank.name)}: a step takes {step_ms} ms, {wait:.1f} % of it waiting for the others"))


def _print_profile(layout: StepLayout, console: Console) -> None:
    profile = layout.step.params.get("profile")
    if not isinstance(profile, dict):
        return
    heads = ("operator", "calls", "self ms", "total ms")
    _print_lines(console, "Operators, under the profiler", heads, [
        [name, str(calls), _ms(self_s), _ms(total_s)] for name, calls, self_s, total_s in profile["operators"][:10]
    ])  # fmt: skip
    what = "Kernels by module" if profile["kernels"] else "Operators by module"
    _print_lines(console, f"{what}, under the profiler", ("module", "", "ms", "count", "most of it"), [
        [row or "model", direction, _ms(seconds), str(count), ", ".join(names[:2])]
        for row, direction, seconds, count, names in profile["modules"][:10]
    ])  # fmt: skip
    if profile["idle_share"] is not None:
        console.print(Text(f"The device was idle {100 * profile['idle_share']:.1f} % of the profiled step"))
    console.print(Text(f"trace: {plain(profile['file'])} beside the run file; open it at ui.perfetto.dev", style="dim"))


def _print_lines(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, heading in enumerate(headings):
        numeric = heading in ("calls", "self ms", "total ms", "ms", "count")
        shown.add_column(
            heading, justify="right" if numeric else "left", no_wrap=at > 0 and numeric, overflow="ellipsis"
        )
    for row in rows:
        shown.add_row(*(Text(plain(cell, 60)) for cell in row))
    console.print(shown)


def _ms(seconds: float) -> str:
    return format_number(1e3 * seconds, 2)
