"""How much slower b is than a, as a log ratio with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.intervals import t_tail

# Logarithms of equal ratios differ by a few 1e-16; a spread or a difference below this is rounding, not measurement.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class LogRatio:
    """The mean of log(b/a) over `n` rounds a side; `note` says why where there is none, or what is odd about it.

    `spread` is the standard deviation per round: with N rounds the standard error is spread / √N.
    """

    mean: float | None
    standard_error: float | None
    df: float
    spread: float
    n: int
    paired: bool
    note: str = ""

    def p_value(self, edge: float = 0.0) -> float | None:
        """The two-sided p value of the true log ratio being on the other side of the nearer of ±`edge`."""
        if self.mean is None or self.standard_error is None:
            return None
        distance = abs(abs(self.mean) - edge)
        if self.standard_error == 0:
            return 1.0 if distance == 0 else 0.0
        return 2 * t_tail(distance / self.standard_error, self.df)


def paired_log_ratio(a_medians: ArrayLike, b_medians: ArrayLike) -> LogRatio:
    """The log ratio from rounds run side by side, round i of a beside round i of b: what both suffer cancels."""
    a, b = _array(a_medians), _array(b_medians)
    if a.size != b.size:
        raise ValueError(f"paired rounds come in pairs, got {a.size} of a and {b.size} of b; compare them unpaired")
    reason = _why_not(a, b)
    if reason:
        return LogRatio(None, None, 0.0, 0.0, a.size, True, reason)
    logs = np.log(b) - np.log(a)
    if a.size < 2:
        return LogRatio(float(logs.mean()), None, 0.0, 0.0, a.size, True, "one round a side shows no spread")
    spread = float(logs.std(ddof=1))
    return _log_ratio(float(logs.mean()), spread, spread / math.sqrt(a.size), a.size - 1, a.size, True)


def unpaired_log_ratio(a_medians: ArrayLike, b_medians: ArrayLike) -> LogRatio:
    """The log ratio from rounds of two separate runs, by Welch's unequal variances."""
    a, b = _array(a_medians), _array(b_medians)
    n = min(a.size, b.size)
    reason = _why_not(a, b)
    if reason:
        return LogRatio(None, None, 0.0, 0.0, n, False, reason)
    a, b = np.log(a), np.log(b)
    mean = float(b.mean() - a.mean())
    if n < 2:
        return LogRatio(mean, None, 0.0, 0.0, n, False, "one round a side shows no spread")
    spread_a, spread_b = float(a.std(ddof=1)), float(b.std(ddof=1))
    part_a, part_b = spread_a**2 / a.size, spread_b**2 / b.size
    df = float(a.size + b.size - 2)
    if part_a + part_b > 0:
        df = (part_a + part_b) ** 2 / (part_a**2 / (a.size - 1) + part_b**2 / (b.size - 1))
    return _log_ratio(mean, math.hypot(spread_a, spread_b), math.sqrt(part_a + part_b), df, n, False)


def _log_ratio(mean: float, spread: float, standard_error: float, df: float, n: int, paired: bool) -> LogRatio:
    """The log ratio with what is only rounding set to zero."""
    mean = 0.0 if abs(mean) < _ROUNDING else mean
    if spread < _ROUNDING:
        return LogRatio(mean, 0.0, df, 0.0, n, paired, "no spread between rounds: a count, or a clock too coarse")
    return LogRatio(mean, standard_error, df, spread, n, paired)


def _why_not(a: NDArray[np.float64], b: NDArray[np.float64]) -> str:
    """Why no ratio can be taken, or ""."""
    if not (a.size and b.size):
        return "no rounds to compare"
    if not (np.isfinite(a).all() and np.isfinite(b).all() and a.min() > 0 and b.min() > 0):
        return "a round median is not a positive number: no ratio"
    return ""


def _array(values: ArrayLike) -> NDArray[np.float64]:
    """`values` as a flat array of floats."""
    return np.asarray(values, dtype=float).ravel()
