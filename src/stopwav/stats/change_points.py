"""Where the level of a series shifted: E-divisive, which splits it by energy distances (Matteson and James, 2014)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# At most two series without a shift in a hundred are split: a history has dozens, and a mark has to mean something.
LEVEL = 0.02
# Orders that a split is compared with: a p value may be as small as 1 in 400, well below the level.
PERMUTATIONS = 399
# A level needs this many values: a single odd one is an outlier, and two of them may still be.
FEWEST_VALUES = 3
# The orders are drawn this many at a time: where there is no shift, the first of them show it.
BATCH = 25
# Sums of distances in another order differ in their last digits; what is equal has to count as equal.
ROUNDING = 1e-9


@dataclass(frozen=True)
class ChangePoint:
    """A shift: the position of the first value of the new level, and how likely so clear a split is by chance."""

    position: int
    p_value: float


@dataclass(frozen=True)
class Split:
    """After how many values a series differs most from what follows, and how clearly; of a short one, not at all."""

    position: int = 0
    statistic: float = -math.inf


def change_points(values: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> list[ChangePoint]:
    """Return where the level of a series shifted, in the order of the series.

    It is split where both sides differ most, and each part again, as long as nearly no random order of the values
    within the parts gives a split as clear. Fewer than ten or so values have too few orders for that.
    """
    distances = np.abs(np.subtract.outer(values, values)).astype(float)
    if not np.isfinite(distances).all():
        raise ValueError("the values of a series have to be finite")
    random = np.random.default_rng(seed)
    found: dict[int, ChangePoint] = {}
    while True:
        bounds = [0, *sorted(found), len(values)]
        parts = {start: distances[start:end, start:end] for start, end in itertools.pairwise(bounds)}
        point = _clearest(parts, level, random)
        if point is None:
            return [found[position] for position in sorted(found)]
        found[point.position] = point


def best_splits(distances: NDArray[np.float64]) -> tuple[Split, Split]:
    """Return the best split of a series into all before and all after, and the best one into a part and what follows.

    `distances` are those between every two of its values. The second is the published one. It sees a level that came
    and went, and pays for looking at many more splits where the last level lasts; there the first is better.
    """
    if len(distances) < 2 * FEWEST_VALUES:
        return Split(), Split()
    statistics = _statistics(distances[np.newaxis])[0]
    return _largest(statistics[:, -1:]), _largest(statistics)


def _largest(statistics: NDArray[np.float64]) -> Split:
    row, _ = np.unravel_index(np.argmax(statistics), statistics.shape)
    return Split(int(row) + FEWEST_VALUES, float(statistics.max()))


def _clearest(parts: dict[int, NDArray[np.float64]], level: float, random: np.random.Generator) -> ChangePoint | None:
    """The clearest split of the parts, which are given by where they start; None where it may be chance."""
    splits = {start: best_splits(part) for start, part in parts.items()}
    points = []
    for kind in (0, 1):
        start = max(splits, key=lambda start: splits[start][kind].statistic)
        points.append((start + splits[start][kind].position, splits[start][kind].statistic))
    long = [part for part in parts.values() if len(part) >= 2 * FEWEST_VALUES]
    p_values = _p_values(long, [statistic for _, statistic in points], level / 2, random)
    # Two questions are asked, so each answer counts double (Bonferroni).
    kind = int(np.argmin(p_values))
    p_value = 2 * p_values[kind]
    return ChangePoint(points[kind][0], p_value) if p_value <= level else None


def _statistics(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The energy statistic of each series in a batch, by the sizes of the first side and of both together.

    nm/(n + m) · (2·mean distance between the sides − mean distance within each), of n values and the m that follow.
    """
    length = distances.shape[-1]
    # sums[n, k]: all distances of the first n values to the first k.
    sums = np.zeros((len(distances), length + 1, length + 1))
    sums[:, 1:, 1:] = distances.cumsum(axis=1).cumsum(axis=2)
    within = np.diagonal(sums, axis1=1, axis2=2)
    first = np.arange(FEWEST_VALUES, length - FEWEST_VALUES + 1)
    both = np.arange(2 * FEWEST_VALUES, length + 1)
    n, m = first[:, np.newaxis], both[np.newaxis] - first[:, np.newaxis]
    possible = m >= FEWEST_VALUES
    m = np.where(possible, m, FEWEST_VALUES)
    to_both = sums[:, first][:, :, both]
    in_first = within[:, first][:, :, np.newaxis]
    in_second = within[:, both][:, np.newaxis] - 2 * to_both + in_first
    statistics = 2 * (to_both - in_first) - in_first * m / (n - 1) - in_second * n / (m - 1)
    return np.where(possible, statistics / (n + m), -math.inf)


def _p_values(
    parts: Sequence[NDArray[np.float64]], statistics: Sequence[float], level: float, random: np.random.Generator
) -> list[float]:
    """The share of random orders within the parts whose best splits of both kinds are as clear as these.

    Once both are above the level, no further order is drawn, as none could change that.
    """
    as_clear, drawn = np.zeros(2, dtype=int), 0
    least = np.array([statistic - ROUNDING * abs(statistic) for statistic in statistics])
    while parts and drawn < PERMUTATIONS and as_clear.min() + 1 <= level * (PERMUTATIONS + 1):
        count = min(BATCH, PERMUTATIONS - drawn)
        best = np.full((2, count), -math.inf)
        for part in parts:
            orders = random.permuted(np.tile(np.arange(len(part)), (count, 1)), axis=1)
            shuffled = _statistics(part[orders[:, :, np.newaxis], orders[:, np.newaxis, :]])
            best = np.maximum(best, [shuffled[:, :, -1].max(axis=1), shuffled.max(axis=(1, 2))])
        as_clear += (least <= best.T).sum(axis=0)
        drawn += count
    return [(int(count) + 1) / (drawn + 1) for count in as_clear]
