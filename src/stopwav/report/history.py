"""The history of a folder of runs: every metric over time, and which points a line may join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report.provenance import fingerprint, normaliser_text
from stopwav.report.text import DASH, counted, format_interval, plain
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
    # The settings that have to be equal for numbers to be comparable.
    settings: Mapping[str, object] = field(default_factory=dict)

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
        """The corpus and the settings of the run: numbers under different ones are not comparable."""
        corpus = self.record.header.corpus
        count = f"{counted(len(corpus['utterances']), 'utterance')}, " if "utterances" in corpus else ""
        parts = [self.series] if self.series else []
        parts += [f"{corpus.get('name', DASH)} ({count}{str(corpus.get('digest', DASH))[:6]})"]
        known = {"chunk_ms": self.record.header.spec.get("chunk_ms"), **self.settings}
        parts += [_setting_text(name, value) for name, value in known.items() if value not in (None, "", [])]
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
    # The run that it is of.
    run: Path = Path()
    started: str = ""

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


def _setting_text(name: str, value: object) -> str:
    """A setting in words."""
    if name == "pace":
        return f"{value} pace"
    return f"{value} ms chunks" if name == "chunk_ms" else f"{name} {value}"


def letter(number: int) -> str:
    """Return A, B, … Z, AA, AB, …: the name of a machine."""
    return ("" if number < 26 else letter(number // 26 - 1)) + chr(ord("A") + number % 26)


def metrics_of(runs: Sequence[PastRun]) -> list[str]:
    """Return every metric that some run has a value of, the key ones first."""
    present = dict.fromkeys(
        name
        for run in runs
        for result in run.results
        if result.status == "ok"
        for name, estimate in result.metrics.items()
        if estimate.value is not None and estimate.unit != "bool"
    )
    key = [metric.name for metric in key_metrics_of(runs) if metric.name in present]
    return key + [name for name in present if name not in key]


def display_scale(metric: str, runs: Sequence[PastRun]) -> tuple[float, str]:
    """Return what the stored values are multiplied by, and the unit they are shown in: no axis from 0 to 0.004 s."""
    estimates = [result.metrics[metric] for run in runs for result in run.results if metric in result.metrics]
    values = [abs(estimate.value) for estimate in estimates if estimate.value is not None]
    unit = estimates[0].unit
    if any(key.scale == 100 for key in key_metrics_of(runs) if key.name == metric):
        return 100.0, "percent"
    if unit == "B":
        return 1e-6, "MB"
    if unit == "s" and max(values, default=0.0) < 1:
        return 1e3, "ms"
    if not unit and values and all(value == round(value) and value > 1 for value in values):
        return 1.0, "count"
    return 1.0, unit or "ratio"


def points_of(metric: str, runs: Sequence[PastRun], scale: float, unit: str) -> list[Point]:
    """Return the points of a metric in the order of the runs; what failed has none, whatever it did before."""
    machines = machine_letters(runs)
    points = []
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            if estimate is None or estimate.value is None or result.status != "ok":
                continue
            low, high = (None if end is None else end * scale for end in (estimate.low, estimate.high))
            machine, setting = machines[run.machine], plain(run.setting)
            amount = f"{amount_text(estimate, scale)} {unit}"
            text = f"{plain(result.name, 80)}, {run.record.header.started}, {amount}, {setting}"
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
                    run.record.path,
                    run.record.header.started,
                )
            )
    return points


def key_metrics_of(runs: Sequence[PastRun]) -> list[KeyMetric]:
    """Return the metrics that a reader looks at first, each once."""
    return list({metric.name: metric for run in runs for metric in run.key_metrics}.values())


def machine_letters(runs: Sequence[PastRun]) -> dict[str, str]:
    """Return the letter of each machine, in the order of appearance."""
    return {machine: letter(index) for index, machine in enumerate(dict.fromkeys(run.machine for run in runs))}


def title_of(metric: str, runs: Sequence[PastRun]) -> tuple[str, str]:
    """Return the title and the meaning of a metric."""
    known: Any = next(filter(None, (run.define(metric) for run in runs)), None)
    return known or (metric, "")


def iso_time(time_s: float) -> str:
    """Return a time as a chart reads it."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def amount_text(estimate: Estimate | None, scale: float) -> str:
    """Return a value with its interval, multiplied by the scale of its metric."""
    return DASH if estimate is None else format_interval(estimate, scale, 4 if scale == 1 else 2)
