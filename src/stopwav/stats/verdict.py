"""What a comparison says: one of five verdicts, `undecided` among them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stopwav.stats.intervals import t_quantile
from stopwav.stats.ratio import LogRatio, paired_log_ratio, unpaired_log_ratio

Kind = Literal["faster", "slower", "same", "small difference", "undecided"]

DEFAULT_THRESHOLD = 0.01  # a change of less than 1 % is of no concern to most people
_COMPARISON_ROUNDS = 10  # what a comparison takes by default; asked for where there is no spread to plan from
_MAX_ROUNDS = 1000  # more than anyone will run: the difference then sits on the threshold, and the note says so
_WIDEST = math.log(100)  # a ratio known to a factor of a hundred either way is not known; its ends soon overflow
_TOO_WIDE = "rounds differ too much for an interval: more of them, or a quieter machine"
_POWER_Z = NormalDist().inv_cdf(0.8)  # the rounds asked for decide in 80 % of cases, not in every other case


@dataclass(frozen=True)
class Verdict:
    """What is known about the ratio b / a: its kind, the interval it rests on, and what more rounds would bring.

    `n` counts rounds a side. `p_value` is that of no difference at all. `more_rounds` is given where `undecided` can
    be mended.
    """

    kind: Kind
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    threshold: float
    n: int
    more_rounds: int | None = None
    p_value: float | None = None
    paired: bool = True
    note: str = ""

    def __str__(self) -> str:
        remarks = []
        if self.more_rounds is not None:
            remarks.append(f"{self.more_rounds} more round{'' if self.more_rounds == 1 else 's'}")
        if not self.paired:
            remarks.append("unpaired")
        return f"{self.kind} ({', '.join(remarks)})" if remarks else self.kind


def paired_verdict(
    a_medians: ArrayLike, b_medians: ArrayLike, threshold: float = DEFAULT_THRESHOLD, confidence: float = 0.95
) -> Verdict:
    """The verdict on b against a from interleaved rounds: Student's t on the log ratios of paired round medians."""
    return decide(paired_log_ratio(a_medians, b_medians), threshold, confidence)


def unpaired_verdict(
    a_medians: ArrayLike, b_medians: ArrayLike, threshold: float = DEFAULT_THRESHOLD, confidence: float = 0.95
) -> Verdict:
    """The verdict on b against a from two separate runs: Welch's t on log round medians, labelled unpaired."""
    return decide(unpaired_log_ratio(a_medians, b_medians), threshold, confidence)


def decide(ratio: LogRatio, threshold: float = DEFAULT_THRESHOLD, confidence: float = 0.95) -> Verdict:
    """The verdict of the interval of log(b/a) against ±log(1 + threshold).

    Wholly beyond: faster or slower. Wholly inside: same, or a small difference where it excludes 0. Else undecided.
    """
    if not (threshold >= 0 and 0 < confidence < 1):
        raise ValueError(f"need threshold ≥ 0 and 0 < confidence < 1, got {threshold} and {confidence}")
    value = None if ratio.mean is None else math.exp(ratio.mean)
    if ratio.mean is None or ratio.standard_error is None:
        more = None if ratio.mean is None and ratio.n else max(1, _COMPARISON_ROUNDS - ratio.n)
        return Verdict(
            "undecided", value, None, None, confidence, threshold, ratio.n, more, None, ratio.paired, ratio.note
        )
    half = t_quantile((1 + confidence) / 2, ratio.df) * ratio.standard_error
    low, high, edge = ratio.mean - half, ratio.mean + half, math.log1p(threshold)
    kind = _kind(low, high, edge)
    more, note = None, ratio.note
    if kind == "undecided":
        more = _more_rounds(ratio, edge, confidence)
        note = note if more is not None else "too close to the threshold for any number of rounds to decide"
    p_value = ratio.p_value()
    if half > _WIDEST:
        return Verdict(kind, value, None, None, confidence, threshold, ratio.n, more, p_value, ratio.paired, _TOO_WIDE)
    ends = (math.exp(low), math.exp(high))
    return Verdict(kind, value, *ends, confidence, threshold, ratio.n, more, p_value, ratio.paired, note)


def decide_all(
    ratios: Sequence[LogRatio], threshold: float | Sequence[float] = DEFAULT_THRESHOLD, confidence: float = 0.95
) -> list[Verdict]:
    """The verdicts on several metrics, such that `confidence` holds for all of them together (Holm).

    The clearest case, that with the smallest p value at its own threshold, must be decided at the strictest
    confidence 1 - α/m, the next at 1 - α/(m - 1), and so on; from the first that is not, all stay at its confidence.
    What has no p value (one round a side) is no test and makes the others no stricter.
    """
    thresholds = [threshold] * len(ratios) if isinstance(threshold, int | float) else list(threshold)
    verdicts = [decide(ratio, limit, confidence) for ratio, limit in zip(ratios, thresholds, strict=True)]
    p_values = [ratio.p_value(math.log1p(limit)) for ratio, limit in zip(ratios, thresholds, strict=True)]
    tests = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    remaining = len(tests)
    for _, index in tests:
        strict = 1 - (1 - confidence) / remaining
        verdicts[index] = decide(ratios[index], thresholds[index], strict)
        if verdicts[index].kind != "undecided":
            remaining -= 1
    return verdicts


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted for there being several (Holm), in the order given: each may be held against α itself."""
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for position, index in enumerate(np.argsort(np.asarray(p_values, dtype=float), kind="stable")):
        largest = max(largest, min(1.0, (m - position) * float(p_values[index])))
        adjusted[index] = largest
    return adjusted


def _kind(low: float, high: float, edge: float) -> Kind:
    """The verdict of an interval of log(b/a) against ±`edge`."""
    if low > edge:
        return "slower"
    if high < -edge:
        return "faster"
    if -edge <= low and high <= edge:
        return "same" if low <= 0 <= high else "small difference"
    return "undecided"


def _more_rounds(ratio: LogRatio, edge: float, confidence: float) -> int | None:
    """How many further rounds should decide, if mean and spread stay as they are; None where more than anyone runs."""
    distance = abs(abs(ratio.mean or 0.0) - edge)

    def decides(total: int) -> bool:
        df = ratio.df * (total - 1) / (ratio.n - 1)
        reach = t_quantile((1 + confidence) / 2, df) + _POWER_Z
        return reach * ratio.spread / math.sqrt(total) <= distance

    totals = range(ratio.n + 1, max(ratio.n + 1, _MAX_ROUNDS) + 1)
    found = bisect_left(totals, True, key=decides)  # more rounds always reach further
    return found + 1 if found < len(totals) else None
