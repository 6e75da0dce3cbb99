"""One location for all rounds of a measurement, with the interval that the number of rounds allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.estimate import Estimate, why_unusable
from stopwav.stats.intervals import median_interval, t_interval

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
    return Estimate(float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)), pooled.size, unit)


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
        missing = f"{note}; no interval from {pooled.size} values"
        return Estimate(value, n=pooled.size, unit=unit, note=missing, code=code)
    # The round with more values could pull the pooled interval away from the other: include both medians.
    return Estimate(value, min(low, *medians), max(high, *medians), pooled.size, unit, note, code)


def _without_logarithm(medians: NDArray[np.float64], n: int, unit: str) -> Estimate:
    """Return the median of round medians, of which some are not positive, and order statistics if there are enough."""
    value, low, high = median_interval(medians)
    note = "median of round medians: not all are positive"
    return Estimate(value, low, high, n, unit, note if low is not None else f"{note}; no interval below 6 rounds")
