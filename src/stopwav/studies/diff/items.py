"""The items of a run that can be compared, such as its engines, and the questions about two of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.stats import Rule
from stopwav.stats.change import Question, ask_nothing
from stopwav.studies.comparable import (
    Comparable,
    ComparableItem,
    Errors,
    RoundMetric,
    Values,
    ask_error_rate,
    ask_metric,
)
from stopwav.studies.stored_fields import readable
from stopwav.studies.study import study_of


def items_of(record: Record) -> dict[str, ComparableItem]:
    """Return what a run has to compare; a value in it that cannot be read is an error that names the run."""
    with readable(record, "values to compare"):
        items = comparable_of(record).items(record)
    return {name: _guarded(record, item) for name, item in items.items()}


def _guarded(record: Record, item: ComparableItem) -> ComparableItem:
    def values(metric: RoundMetric, utterances: set[str]) -> Values:
        with readable(record, metric.name):
            return item.values(metric, utterances)

    def errors(rate: str, utterances: Sequence[str]) -> Errors:
        assert item.errors is not None
        with readable(record, rate):
            return item.errors(rate, utterances)

    return replace(item, values=values, errors=None if item.errors is None else errors)


def comparable_of(record: Record) -> Comparable:
    """Return how runs of this study are compared; an error where they are not."""
    comparable = study_of(record).comparable
    if comparable is None:
        raise StopwavError(f"{record.path}: comparing two runs is not supported for {record.header.study} runs")
    return comparable


def limits_by_metric(
    comparable: Comparable, threshold: float, thresholds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the threshold of every metric."""
    names = comparable.metric_names
    for name, value in {"threshold": threshold, **(thresholds or {})}.items():
        if not (math.isfinite(value) and value >= 0):
            raise StopwavError(f"threshold {value} of {name}: must be 0 or more, such as 0.01 for 1 %")
    unknown = [name for name in thresholds or {} if name not in names]
    if unknown:
        raise StopwavError(f"threshold for {unknown[0]!r}: no such metric here; there are {', '.join(names)}")
    return {name: (thresholds or {}).get(name, threshold) for name in names}


def common_utterances(a: ComparableItem, b: ComparableItem) -> list[str] | None:
    """Return the utterances that completed in every round of both runs, with the same transcript, in a's order."""
    if a.utterances is None or b.utterances is None:
        return None
    return [name for name, text in a.utterances.items() if name in b.utterances and b.utterances[name] == text]


def item_questions(
    comparable: Comparable,
    pair: tuple[ComparableItem, ComparableItem],
    utterances: Sequence[str] | None,
    limits: Mapping[str, float],
    rule: Rule,
    bound: Mapping[str, str],
) -> Iterator[Question]:
    """Yield the questions about one item; none where it has no utterance in common.

    `bound` are the metrics that mean something else in the other run, each with the reason.
    """
    if utterances is not None and not utterances:
        return
    a, b = pair
    chosen = set(utterances or ())
    for metric in comparable.metrics_of(a, b):
        if metric.name in bound:
            yield ask_nothing(metric.name, metric.unit, limits[metric.name], bound[metric.name], "other-setting")
        else:
            values = a.values(metric, chosen), b.values(metric, chosen)
            yield ask_metric(metric, *values, limits[metric.name], rule=rule)
    yield from error_questions(comparable, a, b, utterances or (), limits)


def error_questions(
    comparable: Comparable,
    a: ComparableItem,
    b: ComparableItem,
    utterances: Sequence[str],
    limits: Mapping[str, float],
) -> Iterator[Question]:
    """Yield the question about each error rate, over these utterances."""
    if a.errors is not None and b.errors is not None:
        for rate in comparable.error_rates:
            errors_a, errors_b = (errors(rate, utterances) for errors in (a.errors, b.errors))
            yield ask_error_rate(rate, errors_a, errors_b, limits[rate])
