"""Outliers by Tukey's fences: classified, counted and shown, never removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_MILD, _SEVERE = 1.5, 3.0  # interquartile ranges beyond the quartiles, as Tukey drew them


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


def classify_outliers(values: ArrayLike) -> Outliers:
    """The counts of mild and severe outliers in `values`; a value on a fence is none."""
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
