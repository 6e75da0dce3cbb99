"""The history of a folder as a document: a row per run, the change points, and for the page a chart per metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.report.document import (
    PAGE,
    SCREEN,
    Block,
    Cell,
    Column,
    Document,
    Figures,
    Note,
    Row,
    Section,
    Table,
)
from stopwav.report.history import (
    KeyMetric,
    PastRun,
    amount_text,
    display_scale,
    key_metrics_of,
    machine_letters,
    metrics_of,
    title_of,
)
from stopwav.report.history_chart import unit_text
from stopwav.report.level_shift import LevelShift, LevelShifts, change_text, level_text
from stopwav.report.provenance import machine_line
from stopwav.report.text import DASH, counted, format_bytes, format_value
from stopwav.stats import Estimate
from stopwav.stats.change_points import FEWEST_VALUES, LEVEL

# Machines and change points that stand on top of the page; the tables have all.
MOST_MACHINES, MOST_FINDINGS = 4, 4


def history_document(runs: Sequence[PastRun], folder: str, found: LevelShifts) -> Document:
    """Return a row per run and result for the terminal, for the page a chart and a table per metric, and the shifts."""
    metrics = metrics_of(runs)
    key = [metric.name for metric in key_metrics_of(runs) if metric.name in metrics]
    others = [name for name in metrics if name not in key]
    machines = {run.machine: run for run in reversed(runs)}
    letters = machine_letters(runs)
    named = sorted((letters[name], machine_line(run.record.header)) for name, run in machines.items())
    note = (
        "A line joins only results of one name on one machine with one setting; a machine has a shape. Bars are 95 % "
        "confidence intervals. A point leads to the page of its run. A dashed upright line is a change point."
    )
    glance = Figures(tuple((name,) for name in key), layout="grid")
    folded = Section(counted(len(others), "more chart"), (Figures(tuple((name,) for name in others)),), folded=True)
    return Document(
        f"History of {folder}",
        (
            _summary(runs),
            *((Section("At a glance", (Note(note), glance), media=PAGE),) if key else ()),
            *_shift_blocks(found, runs),
            *((Section("The numbers", tuple(_metric_section(name, runs) for name in key), media=PAGE),) if key else ()),
            *((Section("Every other metric", (folded,), media=PAGE),) if others else ()),
            _runs_section(runs),
        ),
        findings=tuple(_findings(found, runs)),
        facts=(
            ("Runs", _runs_text(runs)),
            *((f"Machine {machine}", line) for machine, line in named[:MOST_MACHINES]),
            *(((("Other machines", str(len(named) - MOST_MACHINES))),) if len(named) > MOST_MACHINES else ()),
        ),
    )


def _findings(found: LevelShifts, runs: Sequence[PastRun]) -> Iterator[str]:
    """A sentence per change point of a key metric, the newest first, or that there is none."""
    if not found.series:
        yield f"Too few runs for change points: they take {2 * FEWEST_VALUES} of one setting on one machine"
        return
    key = {metric.name for metric in key_metrics_of(runs)}
    shifts = sorted((one for one in found.shifts if one.metric in key), key=lambda one: -one.after.time_s)
    for shift in shifts[:MOST_FINDINGS]:
        before, after = (
            level_text(level.value, *display_scale(shift.metric, runs)) for level in (shift.before, shift.after)
        )
        change = f" ({change_text(shift)})" if change_text(shift) else ""
        moved = f"{title_of(shift.metric, runs)[0]} went from {before} to {after}{change}"
        yield f"{shift.name}: {moved} at the run of {_minute(shift.after.started)}"
    if len(shifts) > MOST_FINDINGS:
        yield f"{counted(len(shifts) - MOST_FINDINGS, 'more change point')} of the metrics below"
    if not shifts:
        yield "No change point in the key metrics"


def _runs_text(runs: Sequence[PastRun]) -> str:
    """How many runs, and from when to when."""
    days = sorted({run.record.header.started[:10] for run in runs})
    return f"{counted(len(runs), 'run')}, {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")


def _summary(runs: Sequence[PastRun]) -> Table:
    """A row per run and result with the key metrics."""
    present = metrics_of(runs)
    key = [metric for metric in key_metrics_of(runs) if metric.name in present]
    letters = machine_letters(runs)
    rows = []
    for run in runs:
        started = _minute(run.record.header.started)
        for result in run.results:
            if result.metrics and not any(metric.name in result.metrics for metric in key):
                continue  # such as a part of a training step, which the page has
            numbers = [_brief(result.metrics.get(metric.name), metric) for metric in key]
            texts = (started, result.name, letters[run.machine], *numbers)
            rows.append(Row(tuple(map(Cell, texts))))
    columns = (Column("started, UTC", "left"), Column("result", "left", fold=True), Column("machine"))
    return Table((*columns, *(Column(metric.heading) for metric in key)), tuple(rows), label=1, media=SCREEN)


def _brief(estimate: Estimate | None, metric: KeyMetric) -> str:
    if estimate is None or estimate.value is None:
        return DASH
    return (
        format_bytes(estimate.value) if estimate.unit == "B" else format_value(estimate, metric.scale, metric.decimals)
    )


def _metric_section(metric: str, runs: Sequence[PastRun]) -> Section:
    scale, unit = display_scale(metric, runs)
    letters = machine_letters(runs)
    rows = []
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            note = estimate.note if estimate is not None else result.status
            texts = (result.name, letters[run.machine], amount_text(estimate, scale), note)
            rows.append(Row((Cell(_minute(run.record.header.started), href=run.href), *map(Cell, texts))))
    columns = (
        Column("started (UTC)", "left"),
        Column("result", "left"),
        Column("machine", "left"),
        Column(unit_text(unit) or "value"),
        Column("note", "left"),
    )
    heading = ", ".join(filter(None, (title_of(metric, runs)[0], unit_text(unit))))
    return Section(heading, (Table(columns, tuple(rows)),), folded=True, media=PAGE)


def _runs_section(runs: Sequence[PastRun]) -> Section:
    letters = machine_letters(runs)
    rows = [
        Row(
            (
                Cell(_minute(run.record.header.started), href=run.href),
                Cell(run.record.path.name),
                Cell(letters[run.machine]),
                Cell(run.setting),
                Cell(run.record.header.stopwav),
                Cell("" if run.record.complete else "not complete"),
            )
        )
        for run in runs
    ]
    headings = ("started (UTC)", "run file", "machine", "setting", "stopwav", "")
    return Section("Runs", (Table(tuple(Column(text, "left") for text in headings), tuple(rows)),), media=PAGE)


def _shift_blocks(found: LevelShifts, runs: Sequence[PastRun]) -> Iterator[Block]:
    """The change points of the key metrics; those of the others on the page alone."""
    if not found.shifts:
        return
    key = {metric.name for metric in key_metrics_of(runs)}
    first = [shift for shift in found.shifts if shift.metric in key]
    others = [shift for shift in found.shifts if shift.metric not in key]
    if first:
        yield _shift_table(first, runs)
    if others:
        more = f"{counted(len(others), 'change point')} of {'other ' if first else ''}metrics"
        yield Note(f"{more}, which the page and --json list.", quiet=False, media=SCREEN)
        yield Section(more, (_shift_table(others, runs),), folded=True, media=PAGE)
    yield Note(
        f"A change point is where a level shifted for {FEWEST_VALUES} runs or more, by E-divisive at {LEVEL:.0%}: "
        f"{found.series} series were tested, so about {LEVEL * found.series:.1f} would be marked without any change. "
        "A level is the median of its runs."
    )


def _shift_table(shifts: Sequence[LevelShift], runs: Sequence[PastRun]) -> Table:
    """A row per change point, in the order of time."""
    hrefs = {run.record.path: run.href for run in runs}
    rows = []
    for shift in sorted(shifts, key=lambda shift: shift.after.time_s):
        levels = (shift.before, shift.after)
        amounts = [level_text(level.value, *display_scale(shift.metric, runs)) for level in levels]
        texts = (title_of(shift.metric, runs)[0], shift.name, shift.machine, *amounts, change_text(shift))
        next_runs = (Cell(_minute(level.started), href=hrefs.get(level.run, "")) for level in levels)
        rows.append(Row((*map(Cell, texts), *next_runs)))
    columns = (
        Column("metric", "left", fold=True),
        Column("result", "left", fold=True),
        Column("machine"),
        *map(Column, ("before", "after", "change", "last run before", "first run after")),
    )
    return Table(columns, tuple(rows), title="Change points", label=1)


def _minute(started: str) -> str:
    """A time to the minute, which is as long as a run takes."""
    return started[:16].replace("T", " ")
