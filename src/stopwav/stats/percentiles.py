"""Percentiles by nearest rank, given only where there are enough values for an interval."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.estimate import Estimate, why_unusable
from stopwav.stats.intervals import quantile_ranks

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
    index = rank(p, array.size) - 1
    return float(np.partition(array, index, axis=None)[index])


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
