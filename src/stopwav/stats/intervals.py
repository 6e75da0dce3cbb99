"""Intervals of a mean (Student's t) and of a median (order statistics), and the distributions they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.estimate import Estimate, is_rough, why_unusable
from stopwav.stats.order import order_statistics

WIDEST = math.log(100)  # a ratio known only to a factor of a hundred is not known, and its ends soon overflow
_EPSILON = 1e-16  # relative step below which a continued fraction or a root no longer moves in double precision
_MAX_STEPS = 100_000  # the fraction needs about sqrt(df) steps; reached by no df below 10⁹


# Student's t is written by hand: `statistics` has only the normal distribution, and `scipy.special` takes 0.19 s to
# import before the first table, from a package of 140 MB. The tests compare both functions with scipy's.
def t_tail(t: float, df: float) -> float:
    """Return the probability that Student's t with `df` degrees of freedom exceeds `t`, exact also where it is tiny."""
    if not df > 0:
        raise ValueError(f"degrees of freedom must be positive, not {df}")
    if t < 0:
        return 1.0 - t_tail(-t, df)
    if math.isinf(df) or math.isinf(t):
        return NormalDist().cdf(-t)
    # Both x and 1 - x are passed: near 0 or 1 neither can be computed from the other without losing all its digits.
    return 0.5 * _beta_half(df / (df + t * t), t * t / (df + t * t), df / 2)


@lru_cache(maxsize=4096)
def t_quantile(prob: float, df: float) -> float:
    """Return the value that Student's t with `df` degrees of freedom stays below with probability `prob`."""
    if not 0 < prob < 1:
        raise ValueError(f"a probability must lie between 0 and 1, not {prob}")
    if prob == 0.5:
        return 0.0
    if prob > 0.5:
        return -t_quantile(1 - prob, df)
    if math.isinf(df):
        return NormalDist().inv_cdf(prob)
    low = t = -NormalDist().inv_cdf(prob)  # the normal's tails are lighter: the root lies above
    high = 2 * t
    while t_tail(high, df) > prob:
        low, high = high, high * 2
    for _ in range(200):  # Newton's method, bisecting where a step leaves the bracket
        excess = t_tail(t, df) - prob
        low, high = (t, high) if excess > 0 else (low, t)
        step = t + excess / _t_density(t, df)
        if abs(step - t) <= 1e-10 * t:  # each step doubles the digits: the next would add nothing
            return -step
        t = step if low < step < high else (low + high) / 2
    return -t


def t_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of `values` and the two ends of its Student-t interval; needs two values."""
    array = np.asarray(values, dtype=float)
    if array.size < 2:
        raise ValueError(f"a t interval needs 2 values, got {array.size}")
    mean = float(array.mean())
    half = t_quantile((1 + confidence) / 2, array.size - 1) * float(array.std(ddof=1)) / math.sqrt(array.size)
    return mean, mean - half, mean + half


def median_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float | None, float | None]:
    """Return the median of `values` and the order statistics around it; no ends with too few values (95 % needs 6)."""
    array = np.sort(np.asarray(values, dtype=float), axis=None)
    if not array.size:
        raise ValueError("a median needs a value, got none")
    ranks = quantile_ranks(array.size, 0.5, confidence)
    if ranks is None:
        return float(np.median(array)), None, None
    return float(np.median(array)), float(array[ranks[0] - 1]), float(array[ranks[1] - 1])


_MANY = 10_000  # values from which on not every count is looked at


@lru_cache(maxsize=4096)
def quantile_ranks(n: int, p: float, confidence: float = 0.95) -> tuple[int, int] | None:
    """Return the ranks, from 1, of the two of `n` sorted values that enclose the p-quantile; None with too few values.

    The number of values below the quantile is binomial whatever the distribution; each end misses with at most half of
    1 - confidence.
    """
    if not (0 < p < 1 and 0 < confidence < 1):
        raise ValueError(f"p and confidence must lie between 0 and 1, not {p} and {confidence}")
    tail = (1 - confidence) / 2
    # Of many values only the counts near n p matter: the others together have a probability below 1e-30.
    reach = math.inf if n <= _MANY else 12 * math.sqrt(n * p * (1 - p))
    start, end = max(0, math.ceil(n * p - reach)) if n > _MANY else 0, min(n, n * p + reach)
    k = np.arange(start, int(end) + 1)
    ratios = np.log((n - k[1:] + 1) / k[1:]) + math.log(p / (1 - p))
    first = math.lgamma(n + 1) - math.lgamma(start + 1) - math.lgamma(n - start + 1) if start else 0.0
    first += start * math.log(p) + (n - start) * math.log1p(-p)
    below = np.cumsum(np.exp(first + np.concatenate(([0.0], np.cumsum(ratios)))))  # P(B ≤ k)
    at_least = 1 - np.concatenate(([0.0], below[:-1]))  # P(B ≥ k)
    # Rounding must not cost a rank where the tail is met exactly.
    low = start + int(np.searchsorted(below, tail * (1 + 1e-9), side="right"))
    reachable = np.flatnonzero(at_least <= tail * (1 + 1e-9))
    if low < 1 or not reachable.size:
        return None
    return low, start + int(reachable[0])


def _t_density(t: float, df: float) -> float:
    """Return the density of Student's t at `t`."""
    return math.exp(-_log_beta_half(df / 2) - 0.5 * math.log(df) - (df + 1) / 2 * math.log1p(t * t / df))


def _beta_half(x: float, y: float, a: float) -> float:
    """Return the regularised incomplete beta function I_x(a, 1/2), with y = 1 - x."""
    if x <= 0:
        return 0.0
    if y <= 0:
        return 1.0
    log_x = math.log1p(-y) if y < 0.5 else math.log(x)
    front = math.exp(a * log_x + 0.5 * math.log(y) - _log_beta_half(a))
    # The fraction converges fast below the mean of the distribution; above it, its mirror image does.
    if x < (a + 1) / (a + 2.5):
        return front / a * _beta_fraction(x, a, 0.5)
    return 1.0 - front / 0.5 * _beta_fraction(y, 0.5, a)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by ratios of convergents (Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        factor = 1.0
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d or tiny)
            c = 1.0 + term / c or tiny
            factor = c * d
            value *= factor
        if abs(factor - 1.0) < 4 * _EPSILON:
            break
    return value


def _log_beta_half(a: float) -> float:
    """Return the logarithm of the beta function B(a, 1/2)."""
    if a < 20:
        return math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    # Beyond that the difference of two log-gammas would lose digits; its asymptotic series gains them.
    series = 1 / (8 * a) - 1 / (192 * a**3) + 1 / (640 * a**5) - 17 / (14336 * a**7)
    return math.lgamma(0.5) - 0.5 * math.log(a) + series


_TAIL = 0.025  # what a 95 % interval leaves out at each end


@cache
def minimum_count(p: float) -> int:
    """Return the fewest values for an interval of the p-quantile: 6 (P50), 36 (P90), 72 (P95), 368 (P99).

    With fewer, the chance that all of them lie on one side of the quantile exceeds 2.5 %, and no value bounds it there.
    """
    if not 0 < p < 1:
        raise ValueError(f"p must lie between 0 and 1, not {p}")
    return math.ceil(math.log(_TAIL) / math.log(max(p, 1 - p)) - 1e-9)


def rank(p: float, n: int) -> int:
    """Return the nearest rank of the p-quantile among `n` values, counted from 1."""
    # 0.07 · 100 is a little above 7 in floating point and must not round up to 8.
    return min(n, max(1, math.ceil(p * n - 1e-9)))


def nearest_rank(values: ArrayLike, p: float) -> float:
    """Return the smallest of `values` that at least the share `p` of them do not exceed: always one of them."""
    array = np.asarray(values, dtype=float)
    if not array.size or not 0 <= p <= 1:
        raise ValueError(f"a percentile needs values and 0 ≤ p ≤ 1, got {array.size} values and p = {p}")
    return order_statistics(array.ravel(), [rank(p, array.size) - 1])[0]


def why_unsupported(values: NDArray[np.float64], p: float) -> str:
    """Return why `values` do not support the p-quantile, or ""."""
    needed = minimum_count(p)
    if values.size < needed:
        return f"needs {needed} events, has {values.size}"
    return why_unusable(values)


def percentile(values: ArrayLike, p: float, unit: str = "s") -> Estimate:
    """Return the p-quantile of independent values with its binomial interval; no value where there are too few."""
    array = np.sort(np.asarray(values, dtype=float), axis=None)
    reason = why_unsupported(array, p)
    ranks = None if reason else quantile_ranks(array.size, p)
    if ranks is None:
        return Estimate(None, n=array.size, unit=unit, note=reason)
    return Estimate(nearest_rank(array, p), float(array[ranks[0] - 1]), float(array[ranks[1] - 1]), array.size, unit)


_ROUNDS_FOR_T = 3  # with two, t is 12.7 standard errors wide: no interval anyone could use


def summarise_rounds(rounds: Sequence[ArrayLike], unit: str = "s") -> Estimate:
    """Return the geometric mean of the round medians, with its Student-t interval over rounds; `n` counts values.

    Rounds are independent of each other, values of one process are not. With fewer than three rounds the interval is
    that of the median within a process, and the note says so.
    """
    arrays = [np.asarray(values, dtype=float).ravel() for values in rounds]
    arrays = [array for array in arrays if array.size]
    pooled = np.concatenate(arrays) if arrays else np.empty(0)
    reason = why_unusable(pooled)
    if reason:
        return Estimate(None, n=pooled.size, unit=unit, note=reason)
    medians = np.array([np.median(array) for array in arrays])
    if medians.min() <= 0:
        return _without_logarithm(medians, pooled.size, unit)
    if len(medians) < _ROUNDS_FOR_T:
        return _within_processes(medians, pooled, unit)
    mean, low, high = t_interval(np.log(medians))
    rough = is_rough(len(medians))
    return Estimate(float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)), pooled.size, unit, rough=rough)


def _within_processes(medians: NDArray[np.float64], pooled: NDArray[np.float64], unit: str) -> Estimate:
    """Return the location of one or two rounds, with the order-statistic interval of all their values."""
    value = float(np.exp(np.log(medians).mean()))
    _, low, high = median_interval(pooled)
    if len(medians) == 1:
        value, note, code = float(medians[0]), "within one process", "within-one-process"
    else:
        note = "within two processes: the spread between processes needs three rounds"
        code = "within-two-processes"
    if low is None or high is None:
        missing = f"{note}; no interval from {pooled.size} value{'' if pooled.size == 1 else 's'}"
        return Estimate(value, n=pooled.size, unit=unit, note=missing, code=code)
    # The round with more values could pull the pooled interval away from the other: include both medians.
    ends = min(low, *medians), max(high, *medians)
    return Estimate(value, *ends, pooled.size, unit, note, code, rough=is_rough(len(medians)))


def _without_logarithm(medians: NDArray[np.float64], n: int, unit: str) -> Estimate:
    """Return the median of round medians, of which some are not positive, and order statistics if there are enough."""
    value, low, high = median_interval(medians)
    note = "median of round medians: not all are positive"
    return Estimate(value, low, high, n, unit, note if low is not None else f"{note}; no interval below 6 rounds")
