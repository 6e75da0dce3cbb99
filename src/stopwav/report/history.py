"""The history of a folder of runs: every metric over time, and which points a line may join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report.document import PAGE, Cell, Column, Document, Figures, Lines, Note, Row, Section, Table
from stopwav.report.provenance import fingerprint, machine_line, normaliser_text
from stopwav.report.text import DASH, counted, format_bytes, format_interval, format_value, plain
from stopwav.stats import Estimate


@dataclass(frozen=True)
class KeyMetric:
    """A metric that a reader looks at first: its heading, its scale and its most decimals."""

    name: str
    heading: str
    scale: float
    decimals: int


@dataclass(frozen=True)
class PastRun:
    """A run with the results that are followed, and the address of its page as seen from the page of the history."""

    record: Record
    results: Sequence[Result]
    key_metrics: Sequence[KeyMetric]
    # The title and the meaning of a metric.
    define: Callable[[str], tuple[str, str] | None]
    # What tells its points from those of another study, which times other things under the same name.
    series: str = ""
    href: str = ""

    @property
    def time_s(self) -> float:
        """When it was started, in seconds since 1970."""
        return started_s(self.record)

    @property
    def machine(self) -> str:
        """The fingerprint of the machine it ran on."""
        return fingerprint(self.record.header)

    @property
    def setting(self) -> str:
        """The corpus, pace, chunk size and normaliser of the run: numbers under others are not comparable."""
        spec, corpus = self.record.header.spec, self.record.header.corpus
        count = len(corpus.get("utterances", ()))
        parts = [self.series] if self.series else []
        parts += [f"{corpus.get('name', DASH)} ({counted(count, 'utterance')}, {str(corpus.get('digest', DASH))[:6]})"]
        parts += [
            f"{spec[name]} {word}" for name, word in (("pace", "pace"), ("chunk_ms", "ms chunks")) if spec.get(name)
        ]
        parts += filter(None, [normaliser_text(self.record.header)])
        return ", ".join(parts)


@dataclass(frozen=True)
class Point:
    """A value of a metric at a time, with its interval, and the line it belongs to."""

    engine: str
    machine: str
    setting: str
    time_s: float
    value: float
    low: float | None
    high: float | None
    text: str
    href: str

    @property
    def line(self) -> tuple[str, str, str]:
        """Engine, machine and setting: a line joins points that have them in common."""
        return self.engine, self.machine, self.setting


def started_s(record: Record) -> float:
    """Return when a run was started, in seconds since 1970."""
    try:
        time_s = datetime.fromisoformat(record.header.started).timestamp()
        iso_time(time_s)  # which a time at the end of the calendar has none of
        return time_s
    except (ValueError, OverflowError):
        raise StopwavError(f"{record.path}: started at {record.header.started[:40]!r}, which is not a time") from None


def letter(number: int) -> str:
    """Return A, B, … Z, AA, AB, …: the name of a machine."""
    return ("" if number < 26 else letter(number // 26 - 1)) + chr(ord("A") + number % 26)


def metrics_of(runs: Sequence[PastRun]) -> list[str]:
    """Return every metric that some run has a value of, the key ones first."""
    present = dict.fromkeys(
        name
        for run in runs
        for result in run.results
        for name, estimate in result.metrics.items()
        if estimate.value is not None and estimate.unit != "bool"
    )
    key = [metric.name for metric in _key_metrics(runs) if metric.name in present]
    return key + [name for name in present if name not in key]


def display_scale(metric: str, runs: Sequence[PastRun]) -> tuple[float, str]:
    """Return what the stored values are multiplied by, and the unit they are shown in: no axis from 0 to 0.004 s."""
    estimates = [result.metrics[metric] for run in runs for result in run.results if metric in result.metrics]
    values = [abs(estimate.value) for estimate in estimates if estimate.value is not None]
    unit = estimates[0].unit
    if any(key.scale == 100 for key in _key_metrics(runs) if key.name == metric):
        return 100.0, "percent"
    if unit == "B":
        return 1e-6, "MB"
    if unit == "s" and max(values, default=0.0) < 1:
        return 1e3, "ms"
    if not unit and values and all(value == round(value) and value > 1 for value in values):
        return 1.0, "count"
    return 1.0, unit or "ratio"


def points_of(metric: str, runs: Sequence[PastRun], scale: float, unit: str) -> list[Point]:
    """Return the points of a metric in the order of the runs."""
    machines = _letters(runs)
    points = []
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            if estimate is None or estimate.value is None:
                continue
            low, high = (None if end is None else end * scale for end in (estimate.low, estimate.high))
            machine, setting = machines[run.machine], plain(run.setting)
            text = (
                f"{plain(result.name, 80)}, {run.record.header.started}, {_amount(estimate, scale)} {unit}, {setting}"
            )
            points.append(
                Point(
                    plain(result.name, 80),
                    machine,
                    setting,
                    run.time_s,
                    estimate.value * scale,
                    low,
                    high,
                    plain(f"{text}, machine {machine}"),
                    run.href,
                )
            )
    return points


def history_document(runs: Sequence[PastRun], folder: str) -> Document:
    """Return a line per run and engine for the terminal, and for the page a chart and a table per metric."""
    metrics = metrics_of(runs)
    key = [metric.name for metric in _key_metrics(runs) if metric.name in metrics]
    others = [name for name in metrics if name not in key]
    machines = {run.machine: run for run in reversed(runs)}
    letters = _letters(runs)
    lines = [f"machine {letters[name]}: {machine_line(run.record.header)}" for name, run in sorted(machines.items())]
    note = (
        f"{counted(len(runs), 'run')}. A line joins only runs of one engine on one machine with one setting. Bars "
        "are 95 % confidence intervals. A point leads to the page of its run."
    )
    folded = Section(counted(len(others), "more chart"), (Figures(tuple((name,) for name in others)),), folded=True)
    return Document(
        f"History of {folder}",
        (
            Note(note, media=PAGE),
            _summary(runs),
            Lines("Machines", tuple(sorted(lines)), media=PAGE),
            *(_metric_section(name, runs) for name in key),
            *((Section("Every other metric", (folded,), media=PAGE),) if others else ()),
            _runs_section(runs),
        ),
    )


def _key_metrics(runs: Sequence[PastRun]) -> list[KeyMetric]:
    return list({metric.name: metric for run in runs for metric in run.key_metrics}.values())


def _letters(runs: Sequence[PastRun]) -> dict[str, str]:
    """The letter of each machine, in the order of appearance."""
    return {machine: letter(index) for index, machine in enumerate(dict.fromkeys(run.machine for run in runs))}


def _amount(estimate: Estimate | None, scale: float) -> str:
    return DASH if estimate is None else format_interval(estimate, scale, 4 if scale == 1 else 2)


def _summary(runs: Sequence[PastRun]) -> Table:
    """A row per run and engine with the key metrics."""
    present = metrics_of(runs)
    key = [metric for metric in _key_metrics(runs) if metric.name in present]
    letters = _letters(runs)
    rows = []
    for run in runs:
        # To the minute, which is as long as a run takes.
        started = run.record.header.started[:16].replace("T", " ")
        for result in run.results:
            numbers = [_brief(result.metrics.get(metric.name), metric) for metric in key]
            texts = (started, result.name, letters[run.machine], *numbers)
            rows.append(Row(tuple(map(Cell, texts))))
    columns = (Column("started, UTC", "left"), Column("engine", "left", fold=True), Column("machine"))
    return Table((*columns, *(Column(metric.heading) for metric in key)), tuple(rows), label=1, media=("terminal",))


def _brief(estimate: Estimate | None, metric: KeyMetric) -> str:
    if estimate is None or estimate.value is None:
        return DASH
    return (
        format_bytes(estimate.value) if estimate.unit == "B" else format_value(estimate, metric.scale, metric.decimals)
    )


def _metric_section(metric: str, runs: Sequence[PastRun]) -> Section:
    scale, unit = display_scale(metric, runs)
    letters = _letters(runs)
    rows = []
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            note = estimate.note if estimate is not None else result.status
            texts = (result.name, letters[run.machine], _amount(estimate, scale), note)
            rows.append(Row((Cell(run.record.header.started, href=run.href), *map(Cell, texts))))
    columns = (
        Column("started (UTC)", "left"),
        Column("engine", "left"),
        Column("machine", "left"),
        Column(unit),
        Column("note", "left"),
    )
    table = Section("As a table", (Table(columns, tuple(rows)),), folded=True)
    return Section(f"{title_of(metric, runs)[0]}, {unit}", (Figures(((metric,),)), table), media=PAGE)


def title_of(metric: str, runs: Sequence[PastRun]) -> tuple[str, str]:
    """Return the title and the meaning of a metric."""
    known: Any = next(filter(None, (run.define(metric) for run in runs)), None)
    return known or (metric, "")


def _runs_section(runs: Sequence[PastRun]) -> Section:
    letters = _letters(runs)
    rows = [
        Row(
            (
                Cell(run.record.header.started, href=run.href),
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


def iso_time(time_s: float) -> str:
    """Return a time as a chart reads it."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
