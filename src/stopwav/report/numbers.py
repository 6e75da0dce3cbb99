"""Numbers as text: no more digits than the interval supports, and a dash with a reason where there is none."""

from __future__ import annotations

import math

from stopwav.stats import Estimate

DASH = "–"
# Digits of a number that has no interval to say how many are meaningful.
PLAIN_DIGITS = 3


# A hundredth of a millisecond, of a second or of a percent: nobody acts on less.
MOST_DECIMALS = 2


def format_value(estimate: Estimate, scale: float = 1.0, most: int = MOST_DECIMALS) -> str:
    """The value, rounded to where its interval begins to matter, with `most` decimals at the most."""
    if estimate.value is None:
        return DASH
    return f"{estimate.value * scale:.{_decimals(estimate, scale, most)}f}"


def format_interval(estimate: Estimate, scale: float = 1.0, most: int = MOST_DECIMALS) -> str:
    """The value with its interval in brackets, all to the same digit."""
    value = format_value(estimate, scale, most)
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return value
    decimals = _decimals(estimate, scale, most)
    low, high = (f"{end * scale:.{decimals}f}" for end in (estimate.low, estimate.high))
    # An en dash reads as a minus sign before a negative number.
    between = " to " if high.startswith("-") or low.startswith("-") else "–"
    return f"{value} [{low}{between}{high}]"


def _decimals(estimate: Estimate, scale: float, most: int) -> int:
    """Decimal places: one or two digits of the interval's half-width, or three of the value where there is none."""
    assert estimate.value is not None
    size, digits = abs(estimate.value * scale), PLAIN_DIGITS
    if estimate.low is not None and estimate.high is not None and estimate.high > estimate.low:
        size, digits = (estimate.high - estimate.low) / 2 * scale, 1
    if size == 0:
        return 0
    # One digit more where the first is a 1: rounding 0.14 to 0.1 would move it by a third.
    exponent = math.floor(math.log10(size))
    if digits == 1 and size / 10**exponent < 2:
        digits += 1
    return min(most, max(0, digits - 1 - exponent))


def format_bytes(value: float) -> str:
    """Bytes in the unit of a thousand that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit in ("B", "kB", "MB") else f"{value:.2f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")
