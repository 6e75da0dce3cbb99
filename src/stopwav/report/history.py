"""The history of a folder of runs: what was found when, and which points may be joined by a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report.line_chart import Point, Series
from stopwav.report.numbers import DASH, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.report.presentation import presentation_of
from stopwav.report.provenance import fingerprint
from stopwav.stats import Estimate

# What a person looks at first; every other metric follows below.
KEY_METRICS = (
    "word_latency_p50",
    "word_latency_p95",
    "committed_latency_p50",
    "final_latency_p50",
    "rtf",
    "chunk_lag_p95",
    "wer",
    "upwr",
    "peak_host_bytes",
    "load_time",
)

# Without a unit, and yet no ratios.
COUNTS = ("parameters", "trainable_parameters", "multiply_adds", "emitted_tokens")


@dataclass(frozen=True)
class PastRun:
    """A run with what it found, and the address of its page as seen from the page of the history."""

    record: Record
    results: Sequence[Result]
    href: str | None = None

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
        """What was asked of every engine: numbers under different settings are not comparable."""
        spec, corpus = self.record.header.spec, self.record.header.corpus
        count = len(corpus.get("utterances", ()))
        series = presentation_of(self.record.header.study).series
        parts = [series] if series else []
        parts += [f"{corpus.get('name', DASH)} ({count} utterances, {str(corpus.get('digest', DASH))[:6]})"]
        parts += [
            f"{spec[name]} {word}" for name, word in (("pace", "pace"), ("chunk_ms", "ms chunks")) if spec.get(name)
        ]
        return ", ".join(parts)


def started_s(record: Record) -> float:
    """When a run was started, in seconds since 1970."""
    try:
        return datetime.fromisoformat(record.header.started).timestamp()
    except ValueError:
        raise StopwavError(f"{record.path}: started at {record.header.started[:40]!r}, which is no time") from None


def numbered(names: Sequence[str]) -> dict[str, int]:
    """The names, each once, with its place in the order of appearance."""
    return {name: index for index, name in enumerate(dict.fromkeys(names))}


def metrics_of(runs: Sequence[PastRun]) -> list[str]:
    """Every metric that some run has a value of, the key ones first."""
    present = [
        name
        for run in runs
        for result in run.results
        for name, estimate in result.metrics.items()
        if estimate.value is not None and estimate.unit != "bool"
    ]
    every = dict.fromkeys(present)
    return [name for name in KEY_METRICS if name in every] + [name for name in every if name not in KEY_METRICS]


def display_scale(metric: str, runs: Sequence[PastRun]) -> tuple[float, str]:
    """What the stored values are multiplied by, and the unit they are shown in: no axis from 0 to 0.004 s."""
    estimates = [result.metrics[metric] for run in runs for result in run.results if metric in result.metrics]
    unit = estimates[0].unit
    if metric in ("wer", "upwr"):
        return 100.0, "percent"
    if metric in COUNTS:
        return 1.0, "count"
    if unit == "B":
        return 1e-6, "MB"
    if unit == "s" and max(abs(one.value or 0.0) for one in estimates) < 1:
        return 1e3, "ms"
    return 1.0, unit or "ratio"


def series_of(metric: str, runs: Sequence[PastRun], scale: float, unit: str) -> list[Series]:
    """The points of a metric: joined where engine, machine and setting are the same, apart where one is not."""
    engines = numbered([result.name for run in runs for result in run.results])
    machines = numbered([run.machine for run in runs])
    points: dict[tuple[str, str, str], list[Point]] = {}
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            if estimate is not None and estimate.value is not None:
                text = f"{plain(result.name, 80)}, {run.record.header.started}, {told(estimate, scale)} {unit}"
                points.setdefault((result.name, run.machine, run.setting), []).append(
                    _point(
                        run, estimate, scale, f"{text}, {plain(run.setting)}, machine {letter(machines[run.machine])}"
                    )
                )
    return [Series(engines[key[0]], machines[key[1]], found) for key, found in points.items()]


def _point(run: PastRun, estimate: Estimate, scale: float, text: str) -> Point:
    low, high = (None if end is None else end * scale for end in (estimate.low, estimate.high))
    return Point(run.time_s, (estimate.value or 0.0) * scale, low, high, plain(text), run.href)


def told(estimate: Estimate | None, scale: float) -> str:
    """The value with its interval, or a dash."""
    return DASH if estimate is None else format_interval(estimate, scale, 4 if scale == 1 else 2)


def letter(number: int) -> str:
    """A, B, … Z, AA, AB, …: the name of a machine."""
    return ("" if number < 26 else letter(number // 26 - 1)) + chr(ord("A") + number % 26)


def print_history(runs: Sequence[PastRun], console: Console) -> None:
    """Print a line per run and engine with the numbers that people ask for first."""
    title = Text("P50 and P95: seconds until a word appears")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="")
    for heading in ("started, UTC", "engine", "P50", "P95", "RTF", "WER, %", "machine"):
        is_text = heading in ("started, UTC", "engine")
        # Only names are folded: they may be of any length.
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading != "engine", overflow="fold")
    machines = numbered([run.machine for run in runs])
    for run in runs:
        for result in run.results:
            cells = [_brief(result.metrics, *column) for column in _COLUMNS]
            # To the minute, which is as long as a run takes.
            started = plain(run.record.header.started)[:16].replace("T", " ")
            table.add_row(*map(Text, (started, plain(result.name, 80), *cells, letter(machines[run.machine]))))
    console.print(table)


# The metric, what it is multiplied by, and the most decimals.
_COLUMNS = (("word_latency_p50", 1.0, 2), ("word_latency_p95", 1.0, 2), ("rtf", 1.0, 4), ("wer", 100.0, 2))


def _brief(metrics: Mapping[str, Estimate], name: str, scale: float, most: int) -> str:
    return format_value(metrics[name], scale, most) if name in metrics else DASH
