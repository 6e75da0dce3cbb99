"""Text for people: numbers with no more digits than their interval supports, changes, and names made safe to print."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT
from stopwav.stats import UNDECIDED, Estimate
from stopwav.stats.change import Change
from stopwav.stats.estimate import FEW_UNITS

DASH = "–"
# Before an interval from few independent units, and what it means. A terminal without the sign shows a question mark.
ROUGH = "≈"
ROUGH_LEGEND = f"{ROUGH}[…]  rough interval: from fewer than {FEW_UNITS} utterances, rounds, batches or points"
# In place of a missing number, where a word or two say why.
_ABSENT = {UNTRAINED: UNTRAINED, NO_TRANSCRIPT: WITHOUT_TRANSCRIPT, UNDECIDED: UNDECIDED}
# Digits of a number that has no interval to say how many are meaningful.
PLAIN_DIGITS = 3


# A hundredth of a millisecond, of a second or of a percent: nobody acts on less.
MOST_DECIMALS = 2
# From here on a number is written as 1.23e+10: more digits would burst a table, and mean nothing.
SCIENTIFIC_FROM = 1e10
# Below, the zeros after the point are hard to count.
SCIENTIFIC_BELOW = 1e-4


def format_value(estimate: Estimate, scale: float = 1.0, most: int = MOST_DECIMALS) -> str:
    """The value, rounded to where its interval begins to matter, with `most` decimals at the most.

    What stands before the point is written in full: a rounded 1240 looks like a counted one.
    """
    if estimate.value is None:
        return missing(estimate)
    return format_number(estimate.value * scale, _decimals(estimate, scale, most))


def missing(estimate: Estimate) -> str:
    """Return the text in place of a missing number: a dash, or the reason where a word or two say it."""
    return _ABSENT.get(estimate.code, DASH)


def format_interval(estimate: Estimate, scale: float = 1.0, most: int = MOST_DECIMALS) -> str:
    """The value with its interval in brackets, to the same digit, but for a low end that it would make 0."""
    return f"{format_value(estimate, scale, most)} {format_ends(estimate, scale, most)}".rstrip()


def format_ends(estimate: Estimate, scale: float = 1.0, most: int = MOST_DECIMALS) -> str:
    """The interval in brackets, marked where it is rough; empty where there is none, or it is the value itself."""
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    decimals = _decimals(estimate, scale, most)
    low, high = (format_number(end * scale, decimals) for end in (estimate.low, estimate.high))
    coarse = decimals < most or not low.strip("0.")
    if coarse and 10.0 ** -(most + 2) <= estimate.low * scale < 10.0**-decimals and high.strip("0."):
        # A positive end keeps a digit: a positive quantity is never 0, and 0.05 not 0.1.
        low = format_digits(estimate.low * scale, 1)
    # An en dash reads as a minus sign before a negative number.
    between = " to " if high.startswith("-") or low.startswith("-") else "–"
    return f"{ROUGH if estimate.rough else ''}[{low}{between}{high}]"


def format_number(number: float, decimals: int) -> str:
    """The number with so many decimals, and without the sign of a zero; scientific where it is very large."""
    if not math.isfinite(number):
        return ">1e308" if number > 0 else "<-1e308"
    if abs(number) >= SCIENTIFIC_FROM:
        return f"{number:.{PLAIN_DIGITS - 1}e}"
    written = f"{number:.{decimals}f}"
    return written.removeprefix("-") if not written.strip("-0.") else written


def format_digits(number: float, digits: int = PLAIN_DIGITS) -> str:
    """The number to so many digits, with those before the point in full: 1520, 15.2, 0.152."""
    if not math.isfinite(number) or 0 < abs(number) < SCIENTIFIC_BELOW:
        return f"{number:.{digits - 1}e}"
    exponent = int(f"{number:.{digits - 1}e}".partition("e")[2])
    return format_number(number, max(0, digits - 1 - exponent))


def _decimals(estimate: Estimate, scale: float, most: int) -> int:
    """Decimal places: one or two digits of the interval's half-width, or three of the value where there is none."""
    assert estimate.value is not None
    size, digits = abs(estimate.value * scale), PLAIN_DIGITS
    if estimate.low is not None and estimate.high is not None and estimate.high > estimate.low:
        width = estimate.high - estimate.low
        if estimate.value > 0 and estimate.low > 0:
            # Of a wide interval the relative half-width: RTFx 1.4 [1.1–6.0] must not be shown as 1 [1–6].
            width = min(width, estimate.value * math.log(estimate.high / estimate.low))
        size, digits = width / 2 * scale, 1
    if size == 0 or not math.isfinite(size):
        return 0
    logarithm = math.log10(size)
    exponent = math.floor(logarithm)
    # One digit more where the first is a 1: rounding 0.14 to 0.1 would move it by a third.
    if digits == 1 and logarithm - exponent < math.log10(2):
        digits += 1
    return min(most, max(0, digits - 1 - exponent))


def format_bytes(value: float) -> str:
    """Bytes to three digits, in the unit of a thousand that leaves one to three of them before the point."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        # 999.6 kB would be written as 1000 kB: it belongs to the next unit.
        if abs(value) < 999.5 or unit == "TB":
            break
        value /= 1000
    # Three digits: 1.57, 15.7, 157; there are no parts of a byte.
    decimals = 0 if unit == "B" else sum(abs(value) < limit for limit in (9.995, 99.95))
    return f"{format_number(value, decimals)} {unit}"


def counted(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun: `1 round`, `3 rounds`; `several` is a plural that is not made by an s."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# Longer than any sensible name, short enough that one 100 kB word does not bury a table.
LONGEST = 300


def plain(text: str, longest: int = LONGEST) -> str:
    """The text with control, bidirectional and surrogate characters shown as escapes, cut where it is too long."""
    if len(text) <= longest and text.isprintable():  # as nearly all are
        return text
    safe = "".join(char if _harmless(char) else char.encode("unicode_escape").decode() for char in text[: longest + 1])
    return safe if len(text) <= longest else f"{safe[:longest]}…"


def _harmless(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


# A thousandth of a ratio: a tenth of the default threshold.
_RATIO_DECIMALS = 3


def verdict_text(change: Change) -> str:
    """Return the verdict with what would decide it."""
    if change.more_rounds is None:
        return change.verdict
    return f"{change.verdict} ({counted(change.more_rounds, 'more round')})"


def change_estimate(change: Change) -> Estimate:
    """Return the ratio or difference of a change as an estimate."""
    return Estimate(change.value, change.low, change.high, code=change.code, rough=change.rough)


def effect_text(change: Change) -> str:
    """Return the ratio, or the difference in percentage points, with its interval."""
    estimate = change_estimate(change)
    if change.by == "ratio":
        return format_interval(estimate, most=_RATIO_DECIMALS)
    return f"{format_interval(estimate, scale=100)} points" if change.value is not None else DASH


def amount_text(change: Change, value: float | None) -> str:
    """Return a value of one run to three digits: the ratio next to it says how certain they are."""
    if value is None:
        return DASH
    if change.unit == "B":
        return format_bytes(value)
    if change.n == 0 and value.is_integer():  # a count
        return f"{value:,.0f}"
    # A difference is one of error rates, which are shown in percent.
    scale, suffix = (1e2, " %") if change.by == "difference" else (1.0, "")
    if change.unit == "s":
        scale, suffix = (1.0, " s") if abs(value) >= 1 else (1e3, " ms")
    elif change.unit == "J":
        suffix = " J"
    return format_digits(value * scale) + suffix
