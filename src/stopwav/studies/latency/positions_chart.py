"""Word latency along the utterance: does an engine fall behind?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.report.chart import Chart
from stopwav.report.chart_scales import chart_of, colour, dash, engine_keys, shape, spec_of

# Ticks of the axis of word latency, which is drawn out around zero, where most words are.
LATENCY_TICKS_S = (-5, -2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def positions_chart(positions: Mapping[str, Any], names: Sequence[str]) -> Chart:
    """Dots for words, and a line and a band for the middle of each stretch of the utterance."""
    points, groups = positions["points"], positions["groups"]
    shown = [name for name in names if any(row["engine"] == name for row in points)]
    # A layer without a row would ask the axis to span nothing.
    layers = [_dots(points, names, shown), *(_middle(groups, names, shown) if groups else ())]
    stride = positions["stride"]
    which = f"every {_ordinal(stride)} word" if stride > 1 else "every word"
    return Chart(
        "Word latency along the utterance",
        spec_of(alt.layer(*layers), 320),
        f"Line: median; band: middle half; dots: {which} of {positions['total']} recognised. "
        + " ".join(_trend(name, groups) for name in shown),
        engine_keys(names, shown),
    )


def _along() -> alt.X:
    axis = alt.Axis(grid=False, format="~g", tickCount=8)
    return alt.X("at_s:Q", title="the word ends at, s into the utterance", axis=axis)


def _dots(points: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    latencies = [row["latency_s"] for row in points]
    ticks = [tick for tick in LATENCY_TICKS_S if min(latencies) <= tick <= max(latencies)]
    scale = alt.Scale(type="symlog", constant=0.3, nice=False)
    y = alt.Y("latency_s:Q", scale=scale, title="word latency, s", axis=alt.Axis(values=ticks, format="~g"))
    dots = chart_of(points).mark_point(filled=True, size=14, opacity=0.3)
    return dots.encode(x=_along(), y=y, color=colour(names, shown), shape=shape(names, shown))


def _middle(
    groups: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]
) -> tuple[alt.Chart, alt.Chart]:
    band = chart_of(groups).mark_area(opacity=0.2)
    line = chart_of(groups).mark_line(strokeWidth=2.5, point={"size": 40})
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("at_s:Q", title="around, s", format=".3~g"),
        *(alt.Tooltip(f"p{p}_s:Q", title=f"P{p}, s", format=".3~g") for p in (25, 50, 75)),
        alt.Tooltip("n:Q", title="words"),
    ]
    inked = colour(names, shown)
    return (
        band.encode(x=_along(), y=alt.Y("p25_s:Q"), y2="p75_s:Q", color=inked),
        line.encode(x=_along(), y="p50_s:Q", color=inked, strokeDash=dash(names, shown), tooltip=tooltip),
    )


def _trend(name: str, groups: Sequence[Mapping[str, Any]]) -> str:
    own = [row for row in groups if row["engine"] == name]
    if len(own) < 2:
        return f"{name}: too few words for a trend."
    first, last = own[0], own[-1]
    return (
        f"{name}: median {first['p50_s']:.2g} s around {first['at_s']:.2g} s into the utterance, "
        f"{last['p50_s']:.2g} s around {last['at_s']:.2g} s."
    )


def _ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
