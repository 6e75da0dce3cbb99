"""Changes from a to b, one per metric, decided together so that the confidence holds for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stopwav.stats.bootstrap import paired_ratio_difference, paired_ratio_p_value
from stopwav.stats.estimate import Estimate, is_rough
from stopwav.stats.intervals import t_quantile
from stopwav.stats.rule import Rule, rule_text
from stopwav.stats.verdict import decide, paired_log_ratio, unpaired_log_ratio

Quantity = Literal["time", "size", "errors", "energy", "capacity", "correctness", "share"]

# The words for less and more of each quantity, and of which more is better or neither is.
WORDS: dict[Quantity, tuple[str, str]] = {
    "time": ("faster", "slower"),
    "size": ("smaller", "bigger"),
    "errors": ("better", "worse"),
    "energy": ("less", "more"),
    "capacity": ("fewer", "more"),
    "correctness": ("worse", "better"),
    "share": ("smaller", "larger"),
}
MORE_IS_BETTER: frozenset[Quantity] = frozenset({"capacity", "correctness"})
NEITHER_IS_BETTER: frozenset[Quantity] = frozenset({"share"})
CONFIDENCE = 0.95  # of all changes together, as of every single interval


@dataclass(frozen=True)
class Change:
    """One metric of a and of b: their ratio b / a or difference b - a with its interval, and the verdict on it.

    `confidence` is that of the interval, after Holm. `threshold` is relative. `n` counts rounds per side or, for an
    error rate, samples. `p_value` is that of no difference at all, not adjusted.
    """

    metric: str
    unit: str
    a: float | None
    b: float | None
    by: Literal["ratio", "difference"]
    value: float | None
    low: float | None
    high: float | None
    verdict: str
    confidence: float
    threshold: float
    n: int
    p_value: float | None = None
    more_rounds: int | None = None
    paired: bool = False
    note: str = ""
    # What code may decide on, where the note is for people: why there is no value.
    code: str = ""
    # Whether the interval rests on few rounds or samples.
    rough: bool = False
    # The rule of a verdict from rounds. None where there is none: counts, error rates, and where nothing was measured.
    rule: Rule | None = None
    # What it is a change of; None where nothing was measured.
    quantity: Quantity | None = None

    @property
    def is_worse(self) -> bool:
        """Whether b is shown to be worse than a."""
        if self.quantity is None or self.quantity in NEITHER_IS_BETTER:
            return False
        less, more = WORDS[self.quantity]
        return self.verdict == (less if self.quantity in MORE_IS_BETTER else more)

    @property
    def rule_text(self) -> str:
        """The rule in a few words; for an error rate, which rests on samples and not on rounds, its interval."""
        if self.rule is not None:
            return rule_text(self.rule, self.confidence)
        return f"{100 * self.confidence:.4g} % paired bootstrap over samples" if self.by == "difference" else ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {name: value for name, value in asdict(self).items() if name != "code"}


@dataclass(frozen=True)
class Question:
    """A metric to be decided at any given confidence; without a p value it is not a statistical test."""

    p_value: float | None
    answer: Callable[[float], Change]
    # Its part of the probability of error, against the parts of the others.
    weight: float = 1.0


def answer_all(questions: Sequence[Question], confidence: float = CONFIDENCE) -> list[Change]:
    """Answer all questions so that `confidence` holds for the answers together (Holm).

    The question with the smallest p value is decided at 1 - α/m, the next at 1 - α/(m - 1), and so on; an answer that
    stays undecided relaxes nothing. A question without a p value does not make the others stricter. Where questions
    have weights, each is decided at its weight's part of α among those still open, the smallest p / weight first.
    """
    changes = [question.answer(confidence) for question in questions]
    tests = [
        (question.p_value / question.weight, index)
        for index, question in enumerate(questions)
        if question.p_value is not None
    ]
    open_weights = {index: questions[index].weight for _, index in tests}
    for _, index in sorted(tests):
        part = questions[index].weight / sum(open_weights.values())
        changes[index] = questions[index].answer(1 - (1 - confidence) * part)
        if changes[index].verdict != "undecided":
            del open_weights[index]
    return changes


def ask_ratio(
    metric: str,
    unit: str,
    quantity: Quantity,
    a: ArrayLike,
    b: ArrayLike,
    threshold: float,
    *,
    paired: bool = False,
    rule: Rule = "fixed",
) -> Question:
    """Ask whether b / a differs from 1 by more than the threshold, from one value per round.

    The rounds are of two separate runs or, where `paired`, of one run in which round i of a alternated with that of b.
    Where their number depends on their values, `rule` has to be `anytime`.
    """
    ratio = (paired_log_ratio if paired else unpaired_log_ratio)(a, b)

    def location(values: ArrayLike) -> float | None:
        return None if ratio.mean is None else float(np.exp(np.log(np.asarray(values, dtype=float)).mean()))

    def answer(confidence: float) -> Change:
        verdict = decide(ratio, threshold, confidence, rule)
        less, more = WORDS[quantity]
        return Change(
            metric=metric,
            unit=unit,
            a=location(a),
            b=location(b),
            by="ratio",
            value=verdict.ratio,
            low=verdict.low,
            high=verdict.high,
            verdict={"faster": less, "slower": more}.get(verdict.kind, verdict.kind),
            confidence=confidence,
            threshold=threshold,
            n=verdict.n,
            p_value=verdict.p_value,
            more_rounds=verdict.more_rounds,
            paired=paired,
            note=verdict.note,
            rough=verdict.low is not None and is_rough(verdict.n),
            rule=rule,
            quantity=quantity,
        )

    return Question(ratio.p_value(float(np.log1p(threshold)), rule), answer)


def ask_count(metric: str, a: int, b: int) -> Question:
    """Ask which of two counts is the larger: counts are exact, so there is no test and no threshold."""
    first, second = (Estimate(float(count), count, count) for count in (a, b))
    return ask_estimates(metric, "", "size", first, second, 0.0)


def ask_estimates(metric: str, unit: str, quantity: Quantity, a: Estimate, b: Estimate, threshold: float) -> Question:
    """Ask whether two numbers of whole runs differ by more than the threshold: counts, or numbers with intervals.

    A count has its value at both ends of its interval. There is no test: where an interval is wide, b / a lies between
    the ratios of opposite ends, which is certain enough to be claimed without one.
    """
    is_counted = all(estimate.low == estimate.value == estimate.high for estimate in (a, b))
    low, value, high = _quotient(b.low, a.high), _quotient(b.value, a.value), _quotient(b.high, a.low)
    less, more = WORDS[quantity]
    verdict = "undecided"
    if a.value == b.value and is_counted:
        verdict = "same"
    elif low is not None and low > 1 + threshold:
        verdict = more
    elif high is not None and high < 1 / (1 + threshold):
        verdict = less
    elif low is not None and high is not None and high <= 1 + threshold and low >= 1 / (1 + threshold):
        verdict = "same" if low <= 1 <= high else "small difference"
    low, value, high = (end if end is not None and math.isfinite(end) else None for end in (low, value, high))

    def answer(confidence: float) -> Change:
        return Change(
            metric=metric,
            unit=unit,
            a=a.value,
            b=b.value,
            by="ratio",
            value=value,
            low=low,
            high=high,
            verdict=verdict,
            confidence=confidence,
            threshold=threshold,
            n=0,
            note="counted, not measured" if is_counted else "by the intervals of both runs, without a test",
            quantity=quantity,
        )

    return Question(None, answer)


def _quotient(b: float | None, a: float | None) -> float | None:
    """b / a, infinite where only a is 0; None where one is unknown or both are 0."""
    if a is None or b is None or a == b == 0:
        return None
    return b / a if a else math.inf


def ask_nothing(metric: str, unit: str, threshold: float, reason: str, code: str = "") -> Question:
    """Return a question that has no data: undecided, with the reason."""

    def answer(confidence: float) -> Change:
        undecided = ("undecided", confidence, threshold)
        return Change(metric, unit, None, None, "ratio", None, None, None, *undecided, n=0, note=reason, code=code)

    return Question(None, answer)


def ask_errors(metric: str, a: ArrayLike, b: ArrayLike, totals: ArrayLike, threshold: float, seed: int = 0) -> Question:
    """Ask whether the error rate of b differs by more than the threshold, from error counts on the same samples.

    The difference has its paired bootstrap interval. The threshold is relative to the rate of a.
    """
    errors_a, errors_b, sizes = (np.asarray(values, dtype=float) for values in (a, b, totals))
    if not sizes.sum() > 0:
        return ask_nothing(metric, "", threshold, "no error rate: the totals add up to 0")
    difference = paired_ratio_difference(errors_a, errors_b, sizes, seed)
    differs = bool(np.any(errors_a != errors_b))
    p_value = paired_ratio_p_value(errors_a, errors_b, seed) if differs else None
    rates = float(errors_a.sum() / sizes.sum()), float(errors_b.sum() / sizes.sum())

    def answer(confidence: float) -> Change:
        low, high = _widened(difference, confidence)
        certain = p_value is not None and p_value <= 1 - confidence
        verdict = _verdict_on_errors(low, high, threshold * rates[0], certain) if differs else "same"
        note = difference.note
        if not differs:
            note = "the same number of errors in every sample"
        elif verdict == "undecided":
            note = note or "more samples would decide; more rounds would not"
        return Change(
            metric=metric,
            unit="",
            a=rates[0],
            b=rates[1],
            by="difference",
            value=difference.value,
            low=low,
            high=high,
            verdict=verdict,
            confidence=confidence,
            threshold=threshold,
            n=sizes.size,
            p_value=p_value,
            paired=True,
            note=note,
            rough=difference.rough,
            quantity="errors",
        )

    return Question(p_value, answer)


def _verdict_on_errors(low: float | None, high: float | None, edge: float, certain: bool) -> str:
    """Return the verdict of an interval of a difference against ±`edge`; a change needs a small p value as well."""
    if low is None or high is None:
        return "undecided"
    better, worse = WORDS["errors"]
    if certain and (low > edge or high < -edge):
        return worse if low > edge else better
    return "same" if -edge <= low and high <= edge else "undecided"


def _widened(estimate: Estimate, confidence: float) -> tuple[float | None, float | None]:
    """Return the 95 % interval at another confidence, each arm stretched as Student's t over the samples would be."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None, None
    df = max(1, estimate.n - 1)
    stretch = t_quantile((1 + confidence) / 2, df) / t_quantile((1 + CONFIDENCE) / 2, df)
    low, high = (estimate.value + stretch * (end - estimate.value) for end in (estimate.low, estimate.high))
    return low, high
