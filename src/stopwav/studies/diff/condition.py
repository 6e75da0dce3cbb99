"""A condition on the results of one run, such as `word_latency_p95 < 1.0`, and whether a result is known to meet it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.errors import StopwavError, suggestion
from stopwav.record import Result
from stopwav.stats import Estimate
from stopwav.studies.definition import Definitions
from stopwav.studies.limit import Limit, parse_limit
from stopwav.studies.study import StudyRun

# `holds`: the whole interval is within the limit. `fails`: the whole interval is beyond it. `undecided`: the interval
# contains the limit, or there is no interval. `absent`: there is no value.
Judged = Literal["holds", "fails", "undecided", "absent"]
EXAMPLES = "word_latency_p95 < 1.0, rtf < 0.5, wer < 10%, peak_host_bytes < 2GB, step_time < 300ms of torch"
_OF = re.compile(r"\s+of\s+")


@dataclass(frozen=True)
class Condition:
    """A limit, and the name of the result that it is about; "" for every result that has the metric."""

    limit: Limit
    of: str = ""

    @property
    def text(self) -> str:
        """The condition as it is written."""
        return f"{self.limit.text} of {self.of}" if self.of else self.limit.text


@dataclass(frozen=True)
class ConditionOutcome:
    """A condition judged by one result: its name, the number with its interval, and why it is not decided."""

    condition: Condition
    name: str
    outcome: Judged
    estimate: Estimate
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as `--json` prints it."""
        return {
            "condition": self.condition.text,
            "name": self.name,
            "outcome": self.outcome,
            "reason": self.reason,
            "limit": self.condition.limit.number,
            **self.estimate.to_json(),
        }


def parse_condition(text: str) -> Condition:
    """Return the condition that a text states: `METRIC < NUMBER[UNIT]`, then ` of NAME` for one result alone."""
    stated, *name = _OF.split(text.strip(), maxsplit=1)
    limit = parse_limit(stated)
    if limit is None:
        raise StopwavError(f"{text!r} is not a condition such as {EXAMPLES}")
    return Condition(limit, *name)


def judge(condition: Condition, result: Result) -> ConditionOutcome:
    """Return whether a result is known to meet a condition, by its whole 95 % interval."""
    estimate = result.metrics.get(condition.limit.metric)
    if estimate is None:
        reason = f"the result is {result.status}" if result.status != "ok" else "the result has no such metric"
        return ConditionOutcome(condition, result.name, "absent", Estimate(None, note=reason), reason)
    if estimate.value is None:
        return ConditionOutcome(condition, result.name, "absent", estimate, estimate.note)
    outcome = _side(condition.limit, estimate)
    return ConditionOutcome(
        condition, result.name, outcome, estimate, _why_open(estimate) if outcome == "undecided" else ""
    )


def judge_run(conditions: Sequence[Condition], run: StudyRun) -> list[ConditionOutcome]:
    """Return whether each condition is met by every result that it is about; one that no result can answer is absent.

    It is about the result that it names or, without a name, about all of those kinds of which some have the metric.
    Of these, one that failed has no value, and one that was skipped on purpose is not asked.
    """
    for condition in conditions:
        check_condition(condition, run.study.definitions)
    return [outcome for condition in conditions for outcome in _judged(condition, run)]


def check_condition(condition: Condition, definitions: Definitions) -> None:
    """Raise for a condition on a metric that the study does not have, or in a unit that it does not have."""
    limit = condition.limit
    definition = definitions.find(limit.metric)
    if definition is None:
        raise StopwavError(f"{condition.text!r}: there is no metric {limit.metric!r}; {_nearest(limit, definitions)}")
    if limit.unit is not None and limit.unit != definition.unit:
        unit = f"is in {definition.unit}" if definition.unit else "has no unit"
        raise StopwavError(f"{condition.text!r}: {limit.metric} {unit}")
    if definition.is_share and limit.unit is None and limit.number >= 1:
        example = f"{limit.metric} {limit.relation} {limit.number:g}%"
        raise StopwavError(f"{condition.text!r}: {limit.metric} is a share; for percent write {example}")


def _judged(condition: Condition, run: StudyRun) -> list[ConditionOutcome]:
    if condition.of:
        asked = [result for result in run.results if result.name == condition.of]
        if not asked:
            known = list(dict.fromkeys(result.name for result in run.results))
            raise StopwavError(f"{condition.text!r}: no result {condition.of!r}; {suggestion(condition.of, known)}")
        return [judge(condition, result) for result in asked]
    kinds = {result.kind for result in run.results if condition.limit.metric in result.metrics}
    asked = [result for result in run.results if result.kind in kinds and not _is_left_out(result, run)]
    if asked:
        return [judge(condition, result) for result in asked]
    reason = "no result has this metric"
    return [ConditionOutcome(condition, "", "absent", Estimate(None, note=reason), reason)]


def _is_left_out(result: Result, run: StudyRun) -> bool:
    return any(warning.code in run.study.skip_codes for warning in result.warnings)


def _side(limit: Limit, estimate: Estimate) -> Judged:
    """The side of the limit on which the whole interval lies; a count has its value at both ends.

    So has memory: a peak is the largest that was seen, and not the mean of what another run might need.
    """
    low, high, number = estimate.low, estimate.high, limit.number
    if low is None and high is None and estimate.unit == "B":
        low = high = estimate.value
    within, beyond = {
        "<": (high is not None and high < number, low is not None and low >= number),
        "<=": (high is not None and high <= number, low is not None and low > number),
        ">": (low is not None and low > number, high is not None and high <= number),
        ">=": (low is not None and low >= number, high is not None and high < number),
    }[limit.relation]
    return "holds" if within else "fails" if beyond else "undecided"


def _why_open(estimate: Estimate) -> str:
    if estimate.low is None and estimate.high is None:
        return f"it has no interval{f': {estimate.note}' if estimate.note else ''}; measure more rounds or utterances"
    return "its interval contains the limit; measure more rounds or utterances"


def _nearest(limit: Limit, definitions: Definitions) -> str:
    """The metric that was probably meant; one that comes as percentiles is named with one."""
    known = [
        f"{name}_p95" if definition.percentiles else name
        for group in definitions.groups.values()
        for name, definition in group.items()
    ]
    return suggestion(limit.metric, known, "docs/reference/metrics.md lists them")
