"""A condition that a test requires of what it measured, and what is said where it does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.errors import Caution, StopwavError, suggestion
from stopwav.record import Record, Result
from stopwav.report.text import format_bytes, format_interval, plain
from stopwav.studies.diff.condition import Condition, ConditionOutcome, judge, parse_condition
from stopwav.studies.diff.requirements import gate_conditions
from stopwav.studies.study import results

# Decimals of a number next to its limit, where its interval supports as many: nanoseconds.
_DECIMALS = 9
# Warnings that a message shows: they may be the reason, and must not bury it.
_MOST_WARNINGS = 5


class RequirementError(AssertionError):
    """A condition is not known to hold; the message has each condition with the numbers that it was judged by."""


def require(
    measured: Record | Result | Sequence[Result], *conditions: str, allow_undecided: bool = False
) -> list[ConditionOutcome]:
    """Return how conditions such as `word_latency_p95 < 1.0` were judged; raise where one does not hold.

    A condition holds where the whole 95 % interval does. It fails where all of the interval is beyond the limit, where
    there is no number, and, unless `allow_undecided` is given, where the interval contains the limit. Of a run and of
    several results, each has to meet it.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if not conditions:
        raise StopwavError("no condition is given: name one, such as word_latency_p95 < 1.0")
    outcomes = _outcomes(measured, [parse_condition(text) for text in conditions])
    passing = ("holds", "undecided") if allow_undecided else ("holds",)
    if any(outcome.outcome not in passing for outcome in outcomes):
        raise RequirementError("\n".join(_explanation(measured, outcomes, passing)))
    return outcomes


def outcome_line(judged: ConditionOutcome) -> str:
    """Return a condition with the number that it was judged by, as one line."""
    estimate, whom = judged.estimate, f" of {judged.name}" if judged.name and not judged.condition.of else ""
    line = f"{judged.outcome}: {judged.condition.text}{whom}"
    if estimate.value is None:
        return plain(f"{line}: {judged.reason}", 600)
    number = format_bytes(estimate.value) if estimate.unit == "B" else format_interval(estimate, most=_DECIMALS)
    unit = "" if estimate.unit == "B" else estimate.unit
    reason = {"fails": ", all of the interval is beyond the limit", "undecided": f", {judged.reason}"}
    return plain(f"{line}: {number} {unit}".rstrip() + reason.get(judged.outcome, ""), 600)


def _outcomes(measured: Record | Result | Sequence[Result], conditions: Sequence[Condition]) -> list[ConditionOutcome]:
    if isinstance(measured, Record):
        # One that a test has just made is judged by what it holds, however it ended: what is missing is absent.
        return list(gate_conditions(measured, conditions, allow_incomplete=True).outcomes)
    listed = [measured] if isinstance(measured, Result) else list(measured)
    if not listed or not all(isinstance(result, Result) for result in listed):
        raise StopwavError(f"require takes a run, a result or several, not {type(measured).__name__} {measured!r:.80}")
    return [judge(condition, result) for condition in conditions for result in _asked(condition, listed)]


def _asked(condition: Condition, listed: Sequence[Result]) -> list[Result]:
    """The results that a condition is about; an error where there is none, as it would hold unnoticed."""
    metric = condition.limit.metric
    known = list(dict.fromkeys(name for result in listed for name in result.metrics))
    if known and metric not in known:
        raise StopwavError(f"{condition.text!r}: no such metric here; {suggestion(metric, known)}")
    asked = [result for result in listed if condition.of in ("", result.name)]
    if not asked:
        names = suggestion(condition.of, [result.name for result in listed])
        raise StopwavError(f"{condition.text!r}: no result {condition.of!r} here; {names}")
    return asked


def _explanation(
    measured: Record | Result | Sequence[Result], outcomes: Sequence[ConditionOutcome], passing: Sequence[str]
) -> Iterator[str]:
    unmet = sum(outcome.outcome not in passing for outcome in outcomes)
    yield f"{unmet} of {len(outcomes)} conditions {'is' if unmet == 1 else 'are'} not known to hold"
    yield from (f"  {outcome_line(outcome)}" for outcome in sorted(outcomes, key=lambda one: one.outcome in passing))
    listed = (
        [measured] if isinstance(measured, Result) else results(measured) if isinstance(measured, Record) else measured
    )
    warnings = dict.fromkeys(warning for result in listed for warning in result.warnings)
    yield from (f"  {_warning_line(warning)}" for warning in list(warnings)[:_MOST_WARNINGS])
    if isinstance(measured, Record):
        yield f"run file: {measured.path}; stopwav report shows all of it"


def _warning_line(warning: Caution) -> str:
    return plain(f"warning {warning.code}: {warning.message}", 600)
