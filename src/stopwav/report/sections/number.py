"""A number on the page: its digits, and what is shown when it is pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stopwav.record import Result
from stopwav.report.numbers import format_bytes, format_interval, format_value, missing
from stopwav.report.plain import plain
from stopwav.report.sections.cautions import Footnote
from stopwav.stats import Estimate

_UNITS = {("s", 1.0): "s", ("s", 1e3): "ms", ("", 100): "%"}


@dataclass(frozen=True)
class Number:
    """A cell: what it says, by what it sorts, and its interval, count, note and footnotes."""

    text: str
    interval: str
    sort: str
    metric: str
    tip_interval: str
    n: int
    note: str
    footnotes: tuple[Footnote, ...]


def number(
    result: Result, metric: str, notes: Sequence[Footnote] = (), scale: float = 1.0, decimals: int = 2
) -> Number:
    """The cell of a metric of a result; a dash with its reason where there is no value."""
    why = f"not measured: {result.status}" if not result.metrics else "the engine marks no such stage"
    estimate = result.metrics.get(metric) or Estimate(None, note=why)
    touching = tuple(note for note in notes if note.touches(result.name, metric))
    value = _text(estimate, scale, decimals)
    between = format_interval(estimate, scale, decimals).partition(" ")[2] if estimate.unit != "B" else ""
    return Number(
        text=value,
        interval=between,
        sort="" if estimate.value is None else repr(estimate.value),
        metric=metric,
        tip_interval=_told(estimate, value, between.strip("[]"), scale),
        n=estimate.n,
        note=plain(estimate.note),
        footnotes=touching,
    )


def _text(estimate: Estimate, scale: float, decimals: int) -> str:
    if estimate.value is None:
        return missing(estimate)
    if estimate.unit == "B":
        return format_bytes(estimate.value)
    if estimate.unit == "bool":
        return "yes" if estimate.value else "no"
    return format_value(estimate, scale, decimals)


def _told(estimate: Estimate, value: str, between: str, scale: float) -> str:
    """The value with its unit and interval, as a sentence of its own."""
    if estimate.value is None:
        return "no value"
    unit = _UNITS.get((estimate.unit, scale), "")
    if estimate.unit == "B" and estimate.low is not None and estimate.high is not None:
        between = f"{format_bytes(estimate.low)} to {format_bytes(estimate.high)}"
    interval = f"95 % interval {between.replace('–', ' to ')} {unit}".strip() if between else "no interval"
    return f"{value} {unit}".strip() + f"; {interval}"
