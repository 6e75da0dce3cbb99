"""One number as it is reported: with its interval, what it rests on, and what is to be said about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, the number of values behind it, its unit, and a note where something is missing.

    Whatever is not finite becomes None, with a note: neither NaN nor infinity reaches a table or a JSON file.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        value, low, high = _finite(self.value), _finite(self.low), _finite(self.high)
        note = self.note
        if value is None:
            note = note or ("no value" if self.value is None else "the value is not finite")
            low = high = None
        elif (low, high) != (self.low, self.high):
            note = "; ".join(filter(None, (note, "the interval is not finite")))
        for name, item in (("value", value), ("low", low), ("high", high), ("n", int(self.n)), ("note", note)):
            object.__setattr__(self, name, item)  # frozen for everyone else

    def to_json(self) -> dict[str, float | int | str | None]:
        """The fields as the object that `--json` prints for a metric."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "unit": self.unit,
            "note": self.note,
        }


def why_unusable(values: NDArray[np.float64]) -> str:
    """Why no estimate can be made from `values`, or "": a value that is not finite is a fault to show, not to drop."""
    if not values.size:
        return "no values"
    broken = int(np.count_nonzero(~np.isfinite(values)))
    return f"{broken} of {values.size} values are not finite" if broken else ""


def _finite(number: float | None) -> float | None:
    """`number` as a plain float, or None where it is not finite."""
    return float(number) if number is not None and math.isfinite(number) else None
