"""The axes of a chart: ticks that are few, and reach as far as the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import altair as alt

# Numbers in d3's notation, of ticks and of tooltips: `r` writes 1520 where `g` writes 1.52e+3.
TICKS = ",~r"
# Ticks of a linear axis: enough to read a value by, and few enough for a telephone.
TICK_COUNT = 6
# Ticks of a logarithmic axis within a decade, from coarse to fine: the first of which there are enough to read by.
_WITHIN_A_DECADE = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
FEWEST_LOG_TICKS = 4


def log_ticks(values: Iterable[float]) -> list[float]:
    """Return the ticks of a logarithmic axis: the first at or below all values, the last at or above.

    A value that is not positive has no place on it.
    """
    known = [value for value in values if value > 0] or [1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low / 1.5, high * 1.5
    for mantissas in _WITHIN_A_DECADE:
        ticks = _around(low, high, mantissas)
        if len(ticks) >= FEWEST_LOG_TICKS:
            return ticks
    return _even(low, high)


def _around(low: float, high: float, mantissas: Sequence[float]) -> list[float]:
    """Of the ticks with these leading digits, those from the last at or below `low` to the first at or above `high`."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    ticks = [float(f"{mantissa}e{exponent}") for exponent in exponents for mantissa in mantissas]
    return covering(ticks, low, high)


def covering(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks, in ascending order, from the last at or below `low` to the first at or above `high`."""
    first = max((index for index, tick in enumerate(ticks) if tick <= low), default=0)
    last = min((index for index, tick in enumerate(ticks) if tick >= high), default=len(ticks) - 1)
    return list(ticks[first : last + 1])


def _even(low: float, high: float) -> list[float]:
    """Evenly spaced ticks for a range that is narrow enough to look linear."""
    exponent = math.floor(math.log10((high - low) / FEWEST_LOG_TICKS))
    step = next(float(f"{digit}e{exponent}") for digit in (1, 2, 5, 10) if digit * 10.0**exponent * 4 >= high - low)
    count = math.floor(low / step)
    ticks = [float(f"{count * step:.12g}")]
    while ticks[-1] < high:
        count += 1
        ticks.append(float(f"{count * step:.12g}"))
    # A logarithmic axis has no zero.
    return [tick for tick in ticks if tick > 0]


def log_scale(ticks: Sequence[float]) -> alt.Scale:
    """Return the logarithmic scale that ends at its ticks."""
    return alt.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False)


def end_at_ticks(spec: dict[str, Any]) -> None:
    """Give every linear axis of a chart few ticks, one of them at either end.

    Vega would extend an axis to a tick of ten and then draw six of them, or one every 40 pixels.
    """
    for channel in ("x", "y"):
        encodings = [encoding[channel] for encoding in _encodings(spec) if channel in encoding]
        quantities = [one for one in encodings if one.get("type") == "quantitative"]
        if not quantities or any(_is_settled(one) for one in quantities):
            continue
        counts = [count for one in quantities if (count := (one.get("axis") or {}).get("tickCount"))]
        count = counts[0] if counts else TICK_COUNT
        for one in quantities:
            one["scale"] = {"nice": count, **one.get("scale", {})}
            if one.get("axis", {}) is not None:
                one["axis"] = {**one.get("axis", {}), "tickCount": count}


def _is_settled(encoding: dict[str, Any]) -> bool:
    """Whether a scale is not linear, or its ends or ticks are given."""
    scale, axis = encoding.get("scale") or {}, encoding.get("axis") or {}
    return scale.get("type", "linear") != "linear" or "domain" in scale or "values" in axis


def _encodings(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "encoding" in spec:
        yield spec["encoding"]
    for layer in spec.get("layer", ()):
        yield from _encodings(layer)
