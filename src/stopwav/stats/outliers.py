"""Values that stand out: beyond Tukey's fences, or above the limit of Shewhart's chart. They are never removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

_MILD, _SEVERE = 1.5, 3.0  # interquartile ranges beyond the quartiles, as Tukey drew them

# 3 / 1.128: three standard deviations, each estimated as the mean moving range of two values over d2 = 1.128.
RANGES_TO_LIMIT = 2.66
# With fewer values the limit itself is too uncertain to act on: the usual advice for charts of individual values.
FEW_VALUES = 20


@dataclass(frozen=True)
class Outliers:
    """How many of `n` values lie beyond the inner (mild) and the outer (severe) fences, on either side."""

    low_severe: int
    low_mild: int
    high_mild: int
    high_severe: int
    n: int

    @property
    def count(self) -> int:
        """All outliers together."""
        return self.low_severe + self.low_mild + self.high_mild + self.high_severe


@dataclass(frozen=True)
class ControlChart:
    """mean + 2.66 · mean moving range, the positions of the values above it, and a note where it is weak or missing."""

    n: int
    mean: float | None
    moving_range: float | None
    limit: float | None
    above: tuple[int, ...] = ()
    note: str = ""


def classify_outliers(values: ArrayLike) -> Outliers:
    """Count the mild and severe outliers in `values`; a value on a fence is not one."""
    array = np.asarray(values, dtype=float)
    finite = array[np.isfinite(array)]
    if not finite.size:
        return Outliers(0, 0, 0, 0, array.size)
    lower, upper = np.quantile(finite, (0.25, 0.75))
    spread = upper - lower
    # An infinite value is beyond every fence and counts as severe.
    low_severe = int(np.count_nonzero(array < lower - _SEVERE * spread))
    low = int(np.count_nonzero(array < lower - _MILD * spread))
    high = int(np.count_nonzero(array > upper + _MILD * spread))
    high_severe = int(np.count_nonzero(array > upper + _SEVERE * spread))
    return Outliers(low_severe, low - low_severe, high - high_severe, high_severe, array.size)


def control_chart(groups: Sequence[Sequence[float]]) -> ControlChart:
    """Return Shewhart's chart of individual values; a moving range |x_i − x_{i−1}| never crosses two groups.

    The mean moving range follows the short-term spread alone, so a drift or a rare slow value does not widen the limit
    as it would widen a standard deviation.
    """
    values = [value for group in groups for value in group]
    ranges = [abs(b - a) for group in groups for a, b in pairwise(group)]
    if not values or not all(map(math.isfinite, values)):
        return ControlChart(len(values), None, None, None, note="values are not finite" if values else "no values")
    mean = math.fsum(values) / len(values)
    if not ranges:
        return ControlChart(len(values), mean, None, None, note="needs two consecutive values")
    moving_range = math.fsum(ranges) / len(ranges)
    limit = mean + RANGES_TO_LIMIT * moving_range
    above = tuple(index for index, value in enumerate(values) if value > limit)
    note = "" if len(values) >= FEW_VALUES else f"weak: from {len(values)} values, better {FEW_VALUES} or more"
    return ControlChart(len(values), mean, moving_range, limit, above, note)
