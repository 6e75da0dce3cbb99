"""What changed from a to b: one metric at a time, decided together so that the confidence holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from stopwav.stats.bootstrap import paired_ratio_difference, paired_ratio_p_value
from stopwav.stats.estimate import Estimate
from stopwav.stats.intervals import t_quantile
from stopwav.stats.ratio import paired_log_ratio, unpaired_log_ratio
from stopwav.stats.verdict import decide

Sort = Literal["time", "size", "errors", "energy"]

# What less and more of each sort of number are called.
WORDS: dict[Sort, tuple[str, str]] = {
    "time": ("faster", "slower"),
    "size": ("smaller", "bigger"),
    "errors": ("better", "worse"),
    "energy": ("less", "more"),
}
CONFIDENCE = 0.95  # of the whole table together, as of every interval that stopwav prints


@dataclass(frozen=True)
class Change:
    """One metric of a and of b: what `value` with its interval is (b / a, or b - a), and the verdict on it.

    `confidence` is the one at which the interval stands, after Holm. `threshold` is relative. `n` counts rounds a
    side or, for a rate of errors, utterances. `p_value` is that of no difference at all, not adjusted.
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

    def to_json(self) -> dict[str, Any]:
        """The fields as `--json` prints them."""
        return {name: value for name, value in asdict(self).items() if name != "code"}


@dataclass(frozen=True)
class Question:
    """A metric to be decided on at whichever confidence is asked; without a p value it is no test of anything."""

    p_value: float | None
    answer: Callable[[float], Change]


def answer_all(questions: Sequence[Question], confidence: float = CONFIDENCE) -> list[Change]:
    """The answers, such that `confidence` holds for all of them together (Holm).

    The clearest question is held to 1 - α/m, the next to 1 - α/(m - 1), and so on; an answer that stays undecided
    relaxes nothing. What is no test makes the others no stricter.
    """
    changes = [question.answer(confidence) for question in questions]
    tests = [(question.p_value, index) for index, question in enumerate(questions) if question.p_value is not None]
    open_tests = len(tests)
    for _, index in sorted(tests):
        changes[index] = questions[index].answer(1 - (1 - confidence) / open_tests)
        open_tests -= changes[index].verdict != "undecided"
    return changes


def ask_ratio(
    metric: str, unit: str, sort: Sort, a: ArrayLike, b: ArrayLike, threshold: float, *, paired: bool = False
) -> Question:
    """The question whether b / a is off by more than the threshold, from values of rounds.

    Of two separate runs, or, where they are `paired`, of one run in which round i of a stood beside round i of b.
    """
    ratio = (paired_log_ratio if paired else unpaired_log_ratio)(a, b)

    def location(values: ArrayLike) -> float | None:
        return None if ratio.mean is None else float(np.exp(np.log(np.asarray(values, dtype=float)).mean()))

    def answer(confidence: float) -> Change:
        found = decide(ratio, threshold, confidence)
        less, more = WORDS[sort]
        return Change(
            metric=metric,
            unit=unit,
            a=location(a),
            b=location(b),
            by="ratio",
            value=found.ratio,
            low=found.low,
            high=found.high,
            verdict={"faster": less, "slower": more}.get(found.kind, found.kind),
            confidence=confidence,
            threshold=threshold,
            n=found.n,
            p_value=found.p_value,
            more_rounds=found.more_rounds,
            paired=paired,
            note=found.note,
        )

    return Question(ratio.p_value(float(np.log1p(threshold))), answer)


def ask_count(metric: str, a: int, b: int) -> Question:
    """The question which of two counts is the larger: they are known, so it is no test, and no threshold applies."""
    less, more = WORDS["size"]
    verdict = "same" if a == b else less if b < a else more
    ratio = b / a if a else None

    def answer(confidence: float) -> Change:
        note = "counted, not measured"
        return Change(metric, "", a, b, "ratio", ratio, ratio, ratio, verdict, confidence, 0.0, n=0, note=note)

    return Question(None, answer)


def ask_nothing(metric: str, unit: str, threshold: float, reason: str, code: str = "") -> Question:
    """The question that cannot be asked: undecided, with the reason."""

    def answer(confidence: float) -> Change:
        undecided = ("undecided", confidence, threshold)
        return Change(metric, unit, None, None, "ratio", None, None, None, *undecided, n=0, note=reason, code=code)

    return Question(None, answer)


def ask_errors(metric: str, a: ArrayLike, b: ArrayLike, words: ArrayLike, threshold: float, seed: int = 0) -> Question:
    """The question whether the error rate of b is off by more than the threshold, from errors of the same utterances.

    The difference has its paired bootstrap interval. The threshold is relative to the rate of a.
    """
    errors_a, errors_b, counts = (np.asarray(values, dtype=float) for values in (a, b, words))
    if not counts.sum() > 0:
        return ask_nothing(metric, "", threshold, "no reference words")
    difference = paired_ratio_difference(errors_a, errors_b, counts, seed)
    differs = bool(np.any(errors_a != errors_b))
    p_value = paired_ratio_p_value(errors_a, errors_b, seed) if differs else None
    rates = float(errors_a.sum() / counts.sum()), float(errors_b.sum() / counts.sum())

    def answer(confidence: float) -> Change:
        low, high = _widened(difference, confidence)
        certain = p_value is not None and p_value <= 1 - confidence
        verdict = _verdict_on_errors(low, high, threshold * rates[0], certain) if differs else "same"
        note = difference.note
        if not differs:
            note = "as many errors in every utterance"
        elif verdict == "undecided":
            note = note or "more utterances would decide; more rounds would not"
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
            n=counts.size,
            p_value=p_value,
            paired=True,
            note=note,
        )

    return Question(p_value, answer)


def _verdict_on_errors(low: float | None, high: float | None, edge: float, certain: bool) -> str:
    """The verdict of an interval of a difference against ±`edge`; a change must be `certain` by its p value as well."""
    if low is None or high is None:
        return "undecided"
    better, worse = WORDS["errors"]
    if certain and (low > edge or high < -edge):
        return worse if low > edge else better
    return "same" if -edge <= low and high <= edge else "undecided"


def _widened(estimate: Estimate, confidence: float) -> tuple[float | None, float | None]:
    """The 95 % interval at another confidence, each arm stretched as Student's t over the utterances would be."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None, None
    df = max(1, estimate.n - 1)
    stretch = t_quantile((1 + confidence) / 2, df) / t_quantile((1 + CONFIDENCE) / 2, df)
    low, high = (estimate.value + stretch * (end - estimate.value) for end in (estimate.low, estimate.high))
    return low, high
