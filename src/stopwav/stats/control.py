"""Shewhart's chart of individual values: which of them lie above what the spread of their neighbours explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# 3 / 1.128: three standard deviations, each estimated as the mean moving range of two values over d2 = 1.128.
RANGES_TO_LIMIT = 2.66
# With fewer values the limit itself swings too much to be acted on: the usual advice for charts of individual values.
FEW_VALUES = 20


@dataclass(frozen=True)
class ControlChart:
    """mean + 2.66 · mean moving range, the positions of the values above it, and a note where it is weak or missing."""

    n: int
    mean: float | None
    moving_range: float | None
    limit: float | None
    above: tuple[int, ...] = ()
    note: str = ""


def control_chart(groups: Sequence[Sequence[float]]) -> ControlChart:
    """The chart of all values; a moving range is |x_i − x_{i−1}| of neighbours in one group, never across two.

    The mean moving range follows the short-term spread alone, so a drift or a rare slow value does not widen the limit
    as it would widen a standard deviation.
    """
    values = [value for group in groups for value in group]
    ranges = [abs(b - a) for group in groups for a, b in pairwise(group)]
    if not values or not all(map(math.isfinite, values)):
        return ControlChart(len(values), None, None, None, note="values are not finite" if values else "no values")
    mean = math.fsum(values) / len(values)
    if not ranges:
        return ControlChart(len(values), mean, None, None, note="needs two values next to each other")
    moving_range = math.fsum(ranges) / len(ranges)
    limit = mean + RANGES_TO_LIMIT * moving_range
    above = tuple(index for index, value in enumerate(values) if value > limit)
    note = "" if len(values) >= FEW_VALUES else f"weak: from {len(values)} values, better {FEW_VALUES} or more"
    return ControlChart(len(values), mean, moving_range, limit, above, note)
