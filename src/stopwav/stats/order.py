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
    below = int(np.count_nonzero(values < low))
    if low == high and below <= place < below + int(np.count_nonzero(values == low)):
        return float(low)
    near = values[(values >= low) & (values <= high)]
    if not below <= place < below + near.size:  # an unusual sample
        return float(np.partition(values, place)[place])
    return float(np.partition(near, place - below)[place - below])
