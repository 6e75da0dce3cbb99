"""Order statistics of many values: looked for among the values near by, so that nothing is sorted or copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# From here on a copy of all values is worth avoiding; below, NumPy's partition takes milliseconds.
LARGE = 1_000_000
# Values that are sorted to see where a rank lies, and by how many of them it may lie elsewhere: a rank among 65,536
# values drawn at random has a standard error of at most 128 of them.
_SAMPLE, _MARGIN = 1 << 16, 768
# Values that are compared at a time: as many as a processor's cache holds.
_BLOCK = 1 << 16


def order_statistics(values: Floats, places: Sequence[int]) -> list[float]:
    """Return the values at these places of the sorted values, counted from 0; all values are finite."""
    if not places:
        return []
    if values.size < LARGE:
        ordered = np.partition(values, places)
        return [float(ordered[place]) for place in places]
    sample = np.sort(values[np.random.default_rng(0).integers(0, values.size, _SAMPLE)])
    return [_find(values, place, sample) for place in places]


def _find(values: Floats, place: int, sample: Floats) -> float:
    """The value at a place, looked for between two values of a sorted sample that should have it between them."""
    middle = place * _SAMPLE // values.size
    low, high = sample[max(0, middle - _MARGIN)], sample[min(_SAMPLE - 1, middle + _MARGIN)]
    # The ends of a sample are not those of the values.
    low = low if middle > _MARGIN else values.min()
    high = high if middle + _MARGIN < _SAMPLE else values.max()
    # Of times, many may be the same, such as none: those are counted, not copied.
    below = same = last = 0
    parts = []
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        below += int(np.count_nonzero(block < low))
        same += int(np.count_nonzero(block == low))
        last += int(np.count_nonzero(block == high))
        parts.append(block[(block > low) & (block < high)])
    near = np.concatenate(parts)
    if below <= place < below + same:
        return float(low)
    place_near = place - below - same
    if 0 <= place_near < near.size:
        return float(np.partition(near, place_near)[place_near])
    if near.size <= place_near < near.size + last:
        return float(high)
    return float(np.partition(values, place)[place])  # an unusual sample
