"""The verdict on b against a: one of five, `undecided` among them, from the log ratio of their round medians."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.intervals import WIDEST
from stopwav.stats.rule import Rule, fewest_rounds, interval_reach, two_sided_p_value

Kind = Literal["faster", "slower", "same", "small difference", "undecided"]

DEFAULT_THRESHOLD = 0.01  # a change of less than 1 % is of no concern to most people
_COMPARISON_ROUNDS = 10  # the default of a comparison; suggested where there is no spread to plan from
_MAX_ROUNDS = 1000  # more than anyone will run: the difference is then at the threshold, and the note says so
_TOO_WIDE = "rounds differ too much for an interval: use more rounds, or a quieter machine"
_POWER_Z = NormalDist().inv_cdf(0.8)  # the suggested rounds decide in 80 % of cases, not only in half of them
# Logarithms of equal ratios differ by a few 1e-16; a spread or a difference below this is rounding, not measurement.
_ROUNDING = 1e-12
_NO_SPREAD_KNOWN = "needs at least 2 rounds per side"


@dataclass(frozen=True)
class LogRatio:
    """The mean of log(b/a) over `n` rounds per side; `note` says why there is none, or what is unusual about it.

    `spread` is the standard deviation per round: with N rounds the standard error is spread / √N.
    """

    mean: float | None
    standard_error: float | None
    df: float
    spread: float
    n: int
    paired: bool
    note: str = ""

    @property
    def weight(self) -> float:
        """The squared ratio of spread and standard error: the number of paired rounds that would be as certain."""
        return (self.spread / self.standard_error) ** 2 if self.standard_error else float(self.n)

    def p_value(self, edge: float = 0.0, rule: Rule = "fixed") -> float | None:
        """Return the two-sided p value of the true log ratio being on the other side of the nearer of ±`edge`."""
        if self.mean is None or self.standard_error is None:
            return None
        distance = abs(abs(self.mean) - edge)
        if self.standard_error == 0:
            return 1.0 if distance == 0 else 0.0
        return two_sided_p_value(rule, distance / self.standard_error, self.df, self.n, self.weight)


@dataclass(frozen=True)
class Verdict:
    """The verdict on the ratio b / a, the interval it rests on, and how many more rounds should decide.

    `n` counts rounds per side. `p_value` is that of no difference at all. `more_rounds` is given where more rounds can
    resolve `undecided`. `rule` says whether the rounds had to be fixed beforehand, or may have stopped at any moment.
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
    rule: Rule = "fixed"

    def __str__(self) -> str:
        remarks = []
        if self.more_rounds is not None:
            remarks.append(f"{self.more_rounds} more round{'' if self.more_rounds == 1 else 's'}")
        if not self.paired:
            remarks.append("unpaired")
        return f"{self.kind} ({', '.join(remarks)})" if remarks else self.kind


def paired_verdict(
    a_medians: ArrayLike,
    b_medians: ArrayLike,
    threshold: float = DEFAULT_THRESHOLD,
    confidence: float = 0.95,
    rule: Rule = "fixed",
) -> Verdict:
    """Return the verdict on b against a from interleaved rounds, by the log ratios of round medians."""
    return decide(paired_log_ratio(a_medians, b_medians), threshold, confidence, rule)


def paired_log_ratio(a_medians: ArrayLike, b_medians: ArrayLike) -> LogRatio:
    """Return the log ratio from interleaved rounds, each of a paired with one of b: noise common to both cancels."""
    a, b = _array(a_medians), _array(b_medians)
    if a.size != b.size:
        raise ValueError(f"paired rounds come in pairs, got {a.size} of a and {b.size} of b; compare them unpaired")
    reason = _why_no_ratio(a, b)
    if reason:
        return LogRatio(None, None, 0.0, 0.0, a.size, True, reason)
    logs = np.log(b) - np.log(a)
    if a.size < 2:
        return LogRatio(float(logs.mean()), None, 0.0, 0.0, a.size, True, _NO_SPREAD_KNOWN)
    spread = float(logs.std(ddof=1))
    return _log_ratio(float(logs.mean()), spread, spread / math.sqrt(a.size), a.size - 1, a.size, True)


def unpaired_log_ratio(a_medians: ArrayLike, b_medians: ArrayLike) -> LogRatio:
    """Return the log ratio from rounds of two separate runs, by Welch's unequal variances."""
    a, b = _array(a_medians), _array(b_medians)
    n = min(a.size, b.size)
    reason = _why_no_ratio(a, b)
    if reason:
        return LogRatio(None, None, 0.0, 0.0, n, False, reason)
    a, b = np.log(a), np.log(b)
    mean = float(b.mean() - a.mean())
    if n < 2:
        return LogRatio(mean, None, 0.0, 0.0, n, False, _NO_SPREAD_KNOWN)
    spread_a, spread_b = float(a.std(ddof=1)), float(b.std(ddof=1))
    part_a, part_b = spread_a**2 / a.size, spread_b**2 / b.size
    df = float(a.size + b.size - 2)
    if part_a + part_b > 0:
        df = (part_a + part_b) ** 2 / (part_a**2 / (a.size - 1) + part_b**2 / (b.size - 1))
    return _log_ratio(mean, math.hypot(spread_a, spread_b), math.sqrt(part_a + part_b), df, n, False)


def decide(
    ratio: LogRatio, threshold: float = DEFAULT_THRESHOLD, confidence: float = 0.95, rule: Rule = "fixed"
) -> Verdict:
    """Return the verdict of the interval of log(b/a) against ±log(1 + threshold).

    Wholly outside: faster or slower. Wholly inside: same, or a small difference where it excludes 0. Else undecided.
    """
    if not (threshold >= 0 and 0 < confidence < 1):
        raise ValueError(f"need threshold ≥ 0 and 0 < confidence < 1, got {threshold} and {confidence}")
    value = None if ratio.mean is None else math.exp(ratio.mean)
    undecided = Verdict(
        "undecided", value, None, None, confidence, threshold, ratio.n, paired=ratio.paired, note=ratio.note, rule=rule
    )
    if ratio.mean is None or ratio.standard_error is None:
        more = None if ratio.mean is None and ratio.n else max(1, _COMPARISON_ROUNDS - ratio.n)
        return replace(undecided, more_rounds=more)
    reach = interval_reach(rule, confidence, ratio.df, ratio.n, ratio.weight)
    half = reach * ratio.standard_error if ratio.standard_error else 0.0
    low, high, edge = ratio.mean - half, ratio.mean + half, math.log1p(threshold)
    decided = replace(undecided, kind=_kind(low, high, edge), p_value=ratio.p_value(rule=rule))
    if decided.kind == "undecided":
        more = _more_rounds(ratio, edge, confidence, rule)
        note = ratio.note if more is not None else "too close to the threshold for any number of rounds to decide"
        decided = replace(decided, more_rounds=more, note=note)
    if math.isinf(half):
        return replace(decided, note=f"needs at least {fewest_rounds(rule, confidence)} rounds per side")
    if half > WIDEST:
        return replace(decided, note=_TOO_WIDE)
    return replace(decided, low=math.exp(low), high=math.exp(high))


def _kind(low: float, high: float, edge: float) -> Kind:
    """Return the verdict of an interval of log(b/a) against ±`edge`."""
    if low > edge:
        return "slower"
    if high < -edge:
        return "faster"
    if -edge <= low and high <= edge:
        return "same" if low <= 0 <= high else "small difference"
    return "undecided"


def _more_rounds(ratio: LogRatio, edge: float, confidence: float, rule: Rule) -> int | None:
    """Return how many more rounds should decide if mean and spread stay as they are; None if impractically many."""
    distance = abs(abs(ratio.mean or 0.0) - edge)

    def decides(total: int) -> bool:
        df = ratio.df * (total - 1) / (ratio.n - 1)
        reach = interval_reach(rule, confidence, df, total, total) + _POWER_Z
        return reach * ratio.spread / math.sqrt(total) <= distance

    totals = range(ratio.n + 1, max(ratio.n + 1, _MAX_ROUNDS) + 1)
    index = bisect_left(totals, True, key=decides)  # monotonic: more rounds always decide more
    return index + 1 if index < len(totals) else None


def _log_ratio(mean: float, spread: float, standard_error: float, df: float, n: int, paired: bool) -> LogRatio:
    """Return the log ratio, with rounding errors set to zero."""
    mean = 0.0 if abs(mean) < _ROUNDING else mean
    if spread < _ROUNDING:
        return LogRatio(mean, 0.0, df, 0.0, n, paired, "no spread between rounds: a count, or a clock too coarse")
    return LogRatio(mean, standard_error, df, spread, n, paired)


def _why_no_ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> str:
    """Return why there is no ratio, or ""."""
    if not (a.size and b.size):
        return "no rounds to compare"
    if not (np.isfinite(a).all() and np.isfinite(b).all() and a.min() > 0 and b.min() > 0):
        return "a round median is not a positive number: no ratio"
    return ""


def _array(values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as a flat array of floats."""
    return np.asarray(values, dtype=float).ravel()
