"""A change between two runs or engines as text: its amounts, its effect with the interval, and its verdict."""

from __future__ import annotations

from stopwav.report.numbers import DASH, format_bytes, format_interval
from stopwav.stats import Estimate
from stopwav.stats.change import Change

# A thousandth of a ratio: a tenth of the default threshold.
_RATIO_DECIMALS = 3


def verdict_text(change: Change) -> str:
    """Return the verdict with what would decide it."""
    if change.more_rounds is None:
        return change.verdict
    return f"{change.verdict} ({change.more_rounds} more round{'' if change.more_rounds == 1 else 's'})"


def effect_text(change: Change) -> str:
    """Return the ratio, or the difference in percentage points, with its interval."""
    estimate = Estimate(change.value, change.low, change.high)
    if change.by == "ratio":
        return format_interval(estimate, most=_RATIO_DECIMALS)
    return f"{format_interval(estimate, scale=100)} points" if change.value is not None else DASH


def amount_text(change: Change, value: float | None) -> str:
    """Return a value of one run to three digits: the ratio beside it says how certain they are."""
    if value is None:
        return DASH
    if change.unit == "B":
        return format_bytes(value)
    # A difference is one of error rates, which are shown in percent.
    scale, suffix = (1e2, " %") if change.by == "difference" else (1.0, "")
    if change.unit == "s":
        scale, suffix = (1.0, " s") if abs(value) >= 1 else (1e3, " ms")
    return f"{value * scale:#.3g}".removesuffix(".") + suffix
