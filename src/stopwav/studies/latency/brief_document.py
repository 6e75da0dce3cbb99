"""What a terminal begins with of a latency run: a few rows per engine, a row per setting; and how a cell is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stopwav.record import Result
from stopwav.report.document import BRIEF, Block, Cell, Column, Missing, Note, Row, Source, Table
from stopwav.report.text import (
    change_estimate,
    format_bytes,
    format_interval,
    format_number,
    format_value,
    missing,
    verdict_text,
)
from stopwav.stats import Estimate
from stopwav.stats.change import Change
from stopwav.studies.latency.definitions import definition_of, label_of, shown_sections
from stopwav.studies.latency.explain import Explanation, Gain
from stopwav.studies.latency.missing_reasons import missing_reasons

# The first of these that have a number.
MOST_ROWS = 6
_FIRST = (
    "word_latency_p50",
    "word_latency_p95",
    "rtf",
    "rtfx",
    "wer",
    "peak_host_bytes",
    "final_latency_p50",
    "chunk_lag_p50",
    "cer",
)


def brief_numbers(results: Sequence[Result]) -> Iterator[Block]:
    """Yield the few rows that a terminal begins with, a column per engine, and why numbers are missing there."""
    metrics = _brief_metrics(results)
    rows = [
        Row((Cell(label_of(metric, unit)), *(metric_cell(result, metric) for result in results)))
        for metric, unit in metrics.items()
    ]
    columns = (Column("", "left", fold=True, least=26), *(Column(result.name) for result in results))
    yield Table(columns, tuple(rows), media=BRIEF)
    yield Missing(tuple(missing_reasons(results, metrics)), media=BRIEF)


def _brief_metrics(results: Sequence[Result]) -> Mapping[str, str]:
    """The metrics of these rows with their units, in the order of the whole table."""
    shown = {metric: unit for _, metrics in shown_sections(results, page=False) for metric, unit in metrics.items()}
    numbers = {name for result in results for name, found in result.metrics.items() if found.value is not None}
    # That there are no word errors is said by a word in their place.
    known = [metric for metric in _FIRST if metric in shown and (metric in numbers or metric == "wer")]
    return {metric: unit for metric, unit in shown.items() if metric in known[:MOST_ROWS]}


def brief_gains(explanation: Explanation, title: str) -> Table:
    """Return a row per setting that was tried: what it does to the wait."""
    rows = []
    for gain in explanation.gains:
        _, change, verdict = setting_changes(gain)[0]
        rows.append(Row(tuple(map(Cell, (gain.setting, change, verdict)))))
    columns = (Column("setting", "left", fold=True), Column("wait, ms"), Column("verdict", "left", fold=True))
    return Table(columns, tuple(rows), title=title, media=BRIEF)


def brief_notes(explanation: Explanation) -> Iterator[Block]:
    """Yield what the wait is, and the settings that have no row, each with the reason."""
    yield Note(f"wait: change of {definition_of(explanation.felt).title}", media=BRIEF)
    lines = (f"{left_out.title}: {left_out.setting}: {left_out.reason}" for left_out in explanation.left_out)
    yield Missing(tuple(lines), media=BRIEF)


def metric_cell(result: Result, metric: str) -> Cell:
    """Return the number of a metric with its interval, or why there is none."""
    reason = "the engine marks no such stage" if result.metrics else f"not measured: {result.status}"
    estimate = result.metrics.get(metric) or Estimate(None, note=reason)
    definition = definition_of(metric)
    source = Source(result.name, metric, estimate, definition.scale)
    if estimate.value is None:
        return Cell(missing(estimate), source=source)
    if estimate.unit == "B":
        return Cell(format_bytes(estimate.value), source=source)
    if estimate.unit == "bool":
        return Cell("yes" if estimate.value else "no", source=source)
    shown = (definition.scale, definition.decimals)
    return Cell(format_interval(estimate, *shown), format_value(estimate, *shown), source)


def setting_changes(gain: Gain) -> list[tuple[str, str, str]]:
    """Return what a setting changes: each quantity with its change and the verdict, where there is one."""
    felt = gain.felt
    # The change in ms has the interval of its ratio.
    low, high = (None if end is None or felt.a is None else felt.a * (end - 1) for end in (felt.low, felt.high))
    return [
        ("wait, ms", format_interval(Estimate(gain.felt_s, low, high, rough=felt.rough), 1e3, 1), verdict_text(felt)),
        ("ALGO, ms", format_number(1e3 * gain.algorithmic_s, 0), ""),
        ("chunk latency P95, ×", *change_texts(gain.lag_p95)),
        ("chunk latency P50, ×", *change_texts(gain.lag_p50)),
        (f"{gain.wer.metric.upper()}, points", *change_texts(gain.wer, 100)),
    ]


def change_texts(change: Change, scale: float = 1.0) -> tuple[str, str]:
    """Return a change with its interval, and its verdict."""
    return format_interval(change_estimate(change), scale), "" if change.value is None else change.verdict
