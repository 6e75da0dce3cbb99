"""A reported number with its interval, the number of values behind it and a note; and the Pareto set of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# The code of a yes or no that the interval behind it leaves open.
UNDECIDED = "undecided"
# An interval from fewer independent units (utterances, rounds, batches) is rough: their spread, which it is made from,
# is itself known only to about a factor of two.
FEW_UNITS = 5


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
    # What code may decide on, where the note is for people: why there is no value, or what kind of number it is.
    code: str = ""
    # How many independent values the sample is worth, where that is too few for an interval.
    effective_n: int | None = None
    # Whether the interval rests on few independent units.
    rough: bool = False

    def __post_init__(self) -> None:
        value, low, high = _finite(self.value), _finite(self.low), _finite(self.high)
        note = self.note
        if value is None:
            note = note or ("no value" if self.value is None else "the value is not finite")
            low = high = None
        elif (low, high) != (self.low, self.high):
            note = "; ".join(filter(None, (note, "the interval is not finite")))
        rough = bool(self.rough) and low is not None
        fields = {"value": value, "low": low, "high": high, "n": int(self.n), "note": note, "rough": rough}
        for name, item in fields.items():
            object.__setattr__(self, name, item)  # frozen for everyone else

    def to_json(self) -> dict[str, float | int | str | None]:
        """Return the fields as the object that `--json` prints for a metric."""
        return {name: value for name, value in asdict(self).items() if name not in ("code", "effective_n")}


def pareto_set(points: Mapping[str, Sequence[Estimate]]) -> list[str]:
    """Return the names of the points that no other point dominates, in the order given; less is better on every axis.

    All points need a value on every axis.
    """
    return [name for name, point in points.items() if not any(dominates(other, point) for other in points.values())]


def dominates(a: Sequence[Estimate], b: Sequence[Estimate]) -> bool:
    """Whether a is shown to be less than b on some axis, and no more than b on any other.

    Only whole intervals show it: where they overlap, b may be the better one. A count is certain and has its value at
    both ends; a measured value without an interval shows nothing.
    """
    pairs = list(zip(a, b, strict=True))
    return all(_no_more(left, right) for left, right in pairs) and any(left.high != right.low for left, right in pairs)


def why_unusable(values: NDArray[np.float64]) -> str:
    """Return why no estimate can be made from `values`, or "".

    A value that is not finite is a fault to report, not to drop.
    """
    if not values.size:
        return "no values"
    broken = int(np.count_nonzero(~np.isfinite(values)))
    return f"{broken} of {values.size} values are not finite" if broken else ""


def _no_more(a: Estimate, b: Estimate) -> bool:
    return a.high is not None and b.low is not None and a.high <= b.low


def _finite(number: float | None) -> float | None:
    """Return `number` as a plain float, or None where it is not finite."""
    return float(number) if number is not None and math.isfinite(number) else None


def is_rough(units: int) -> bool:
    """Whether an interval from so many independent units is rough: the one rule for all of them."""
    return units < FEW_UNITS


def side_of(estimate: Estimate, limit: float) -> Literal["below", "above", "undecided"]:
    """Return on which side of a limit the whole interval lies; undecided where it includes the limit or there is none.

    A count has its value at both ends; a measured value without an interval shows nothing.
    """
    if estimate.high is not None and estimate.high < limit:
        return "below"
    return "above" if estimate.low is not None and estimate.low > limit else "undecided"


def scaled(estimate: Estimate, factor: float, unit: str = "") -> Estimate:
    """Return the estimate times a factor."""
    if estimate.value is None:
        return Estimate(None, unit=unit, note=estimate.note)
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value * factor, low=low, high=high, unit=unit)


def inverse(estimate: Estimate) -> Estimate:
    """Return one over the estimate, its ends exchanged; without an interval where an end has no positive inverse."""
    if not estimate.value or estimate.value < 0:
        return Estimate(None, note=estimate.note or "not above zero, so there is no inverse")
    low, high = estimate.low, estimate.high
    ends = (1 / high, 1 / low) if low is not None and high is not None and low > 0 else (None, None)
    return replace(estimate, value=1 / estimate.value, low=ends[0], high=ends[1], unit="")
