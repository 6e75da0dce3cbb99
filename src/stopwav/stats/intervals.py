"""Intervals of a mean (Student's t) and of a median (order statistics), and the distributions they need."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

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


@lru_cache(maxsize=4096)
def quantile_ranks(n: int, p: float, confidence: float = 0.95) -> tuple[int, int] | None:
    """Return the ranks, from 1, of the two of `n` sorted values that enclose the p-quantile; None with too few values.

    The number of values below the quantile is binomial whatever the distribution; each end misses with at most half of
    1 - confidence.
    """
    if not (0 < p < 1 and 0 < confidence < 1):
        raise ValueError(f"p and confidence must lie between 0 and 1, not {p} and {confidence}")
    tail = (1 - confidence) / 2
    k = np.arange(n + 1)
    with np.errstate(divide="ignore"):
        ratios = np.log((n - k[1:] + 1) / k[1:]) + math.log(p / (1 - p))
    below = np.cumsum(np.exp(n * math.log1p(-p) + np.concatenate(([0.0], np.cumsum(ratios)))))  # P(B ≤ k)
    at_least = 1 - np.concatenate(([0.0], below[:-1]))  # P(B ≥ k)
    # Rounding must not cost a rank where the tail is met exactly.
    low = int(np.searchsorted(below, tail * (1 + 1e-9), side="right"))
    reachable = np.flatnonzero(at_least <= tail * (1 + 1e-9))
    if low < 1 or not reachable.size:
        return None
    return low, int(reachable[0])


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
