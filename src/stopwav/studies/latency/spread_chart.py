"""How long chunks take: a histogram and its cumulative curve, with P50 and P95 marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.report.chart import Chart
from stopwav.report.chart_scales import chart_of, colour, dash, engine_keys, shape, spec_of
from stopwav.report.palette import engine_ink, ink

# Labels of percentiles stand above each other; with more engines they would fill the chart.
MOST_LABELLED = 4
HEIGHT = 150


def histogram_chart(title: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """How often a chunk took how long, on a logarithmic axis."""
    shown = [entry["engine"] for entry in entries]
    marks = _percentiles(entries)
    layers = [_steps(entries, names, shown), _rules(marks, names, shown)]
    if len(shown) <= MOST_LABELLED:
        layers += [_labels(marks, name, row, names.index(name)) for row, name in enumerate(shown)]
    return Chart(title, spec_of(alt.layer(*layers), HEIGHT), _told(title, entries), engine_keys(names, shown))


def ecdf_chart(title: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """What share of chunks was done within a time."""
    shown = [entry["engine"] for entry in entries]
    points = chart_of(_percentiles(entries)).mark_point(
        filled=True, size=70, opacity=1, stroke=ink("card"), strokeWidth=1
    )
    layers = (
        _curves(entries, names, shown),
        points.encode(x="ms:Q", y="p:Q", color=colour(names, shown), shape=shape(names, shown), tooltip=_tooltip()),
    )
    spec = spec_of(alt.layer(*layers), HEIGHT)
    return Chart(f"{title}, cumulative", spec, _told(title, entries), engine_keys(names, shown))


def _steps(entries: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    # A step is drawn to the right of its corner, so the last bin needs a corner at its end.
    rows = [
        {"engine": entry["engine"], "ms": edge, "share": share}
        for entry in entries
        for edge, share in zip(entry["edges_ms"], [*entry["shares"], entry["shares"][-1]], strict=True)
    ]
    line = {"strokeWidth": 1.5, "interpolate": "step-after"}
    area = chart_of(rows).mark_area(interpolate="step-after", opacity=0.28, line=line)
    y = alt.Y("share:Q", stack=None, title="share of chunks", axis=alt.Axis(format="~%", tickCount=4))
    return area.encode(x=_milliseconds(entries), y=y, color=colour(names, shown))


def _rules(marks: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    dashes = alt.Scale(domain=["P50", "P95"], range=[[1, 0], [4, 3]])
    return (
        chart_of(marks)
        .mark_rule(strokeWidth=2)
        .encode(
            x="ms:Q",
            color=colour(names, shown),
            strokeDash=alt.StrokeDash("which:N", scale=dashes, legend=None),
            tooltip=_tooltip(),
        )
    )


def _labels(marks: Sequence[Mapping[str, Any]], name: str, row: int, index: int) -> alt.Chart:
    """`P50` and `P95` above the rules of one engine, a line higher for each engine so that none covers another."""
    own = [mark for mark in marks if mark["engine"] == name]
    if len({mark["ms"] for mark in own}) < len(own):
        own = [{**own[0], "which": "P50 = P95"}]
    text = chart_of(own).mark_text(fontSize=11, dy=-7 - 13 * row, fill=engine_ink(index))
    return text.encode(x="ms:Q", y=alt.value(0), text="which:N")


def _curves(entries: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    corners = []
    for entry in entries:
        # From the left edge at nothing to the right edge at everything: a curve that ends in mid-air looks cut off.
        ends = [[entry["edges_ms"][0], 0.0], *entry["ecdf"], [entry["edges_ms"][-1], 1.0]]
        corners += [
            {"engine": entry["engine"], "ms": ms, "share": share, "order": i} for i, (ms, share) in enumerate(ends)
        ]
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.95, 1], format="~%")
    lines = chart_of(corners).mark_line(interpolate="step-after", strokeWidth=2)
    return lines.encode(
        x=_milliseconds(entries),
        y=alt.Y("share:Q", title="share within", axis=axis),
        order="order:Q",
        color=colour(names, shown),
        strokeDash=dash(names, shown),
    )


def _percentiles(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """P50 and P95 of each engine, where the sample carries them, at the axis' end where they lie before it."""
    return [
        {
            "engine": entry["engine"],
            "which": f"P{p}",
            "p": p / 100,
            "ms": max(entry[f"p{p}_ms"], entry["edges_ms"][0]),
            "n": entry["n"],
        }
        for entry in entries
        for p in (50, 95)
        if entry[f"p{p}_ms"] is not None
    ]


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("engine:N"),
        alt.Tooltip("which:N", title="percentile"),
        alt.Tooltip("ms:Q", title="ms", format=".3~g"),
        alt.Tooltip("n:Q", title="chunks"),
    ]


def _told(title: str, entries: Sequence[Mapping[str, Any]]) -> str:
    sentences = []
    for entry in entries:
        marks = [f"P{p} {_ms(entry[f'p{p}_ms'])}" for p in (50, 95)]
        share = 100 * entry["below_axis"] / entry["n"]
        below = f", {share:.0f} % of them shorter than the axis and drawn at its left end"
        tail = below if share >= 1 else ""
        sentences.append(f"{entry['engine']}: {', '.join(marks)} ({entry['n']} chunks{tail})")
    return f"{title[:1].upper()}{title[1:]}, per chunk. {'; '.join(sentences)}."


def _ms(value: float | None) -> str:
    return "–, too few chunks" if value is None else f"{value:.3g} ms"


def _milliseconds(entries: Sequence[Mapping[str, Any]]) -> alt.X:
    edges = entries[0]["edges_ms"]
    scale = alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)
    return alt.X("ms:Q", scale=scale, title="ms (logarithmic)", axis=alt.Axis(grid=False, format="~g", tickCount=6))
