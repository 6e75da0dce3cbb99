"""The charts of a latency run: why words take so long, where in the utterance, and how long each chunk takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from stopwav.report.axis import TICKS, covering
from stopwav.report.chart import (
    VALUES,
    Chart,
    Key,
    chart_of,
    colour,
    dash,
    engine_ink,
    engine_keys,
    ink,
    shape,
    spec_of,
)
from stopwav.report.text import format_digits, plain
from stopwav.studies.latency.chunk_definitions import CHUNKS
from stopwav.studies.latency.definitions import WATERFALL
from stopwav.studies.study import StudyRun

# In the order in which they occur in a chunk; other stages of an engine follow.
KNOWN = ("chunk_lag", "queue", "service", "features", "copy", "inference", "post", "other")
LONGEST_NAME = 40
# Ticks of the axis of word latency, which is stretched around zero, where most words are.
LATENCY_TICKS_S = (-50, -20, -10, -5, -2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
# A stage that takes less of every chunk, at P95, makes no wait that anybody feels: its charts are folded away.
FELT_MS = 1.0
# The labels of percentiles are stacked; with more engines they would fill the chart.
MOST_LABELLED = 4
DISTRIBUTION_HEIGHT = 150


def latency_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them."""
    display = _display_names(run.view["engines"])
    names = list(display.values())
    view = _renamed(run.view, display)
    charts: dict[str, Chart] = {}
    if view["waterfall"]:
        charts["waterfall"] = _waterfall(view["waterfall"], names)
    if view["positions"]["points"]:
        charts["positions"] = _positions(view["positions"], names)
    by_quantity: dict[str, list[Mapping[str, Any]]] = {}
    for entry in view["distributions"]:
        by_quantity.setdefault(entry["quantity"], []).append(entry)
    for quantity in sorted(by_quantity, key=lambda name: KNOWN.index(name) if name in KNOWN else len(KNOWN)):
        title, entries = _quantity_title(quantity), by_quantity[quantity]
        key = _key(quantity, charts)
        folded = quantity != "chunk_lag" and all(_unfelt(entry) for entry in entries)
        charts[f"histogram-{key}"] = replace(_histogram(title, entries, names), folded=folded)
        charts[f"ecdf-{key}"] = replace(_ecdf(title, entries, names), folded=folded)
    return charts


def _unfelt(entry: Mapping[str, Any]) -> bool:
    highest = entry["p50_ms"] if entry["p95_ms"] is None else entry["p95_ms"]
    return highest is not None and highest < FELT_MS


def _key(quantity: str, charts: Mapping[str, Chart]) -> str:
    """The quantity as part of a chart's name, safe in a file's name; engines name their stages as they like."""
    key = re.sub(r"\W+", "_", quantity, flags=re.ASCII)[:LONGEST_NAME]
    return key if f"ecdf-{key}" not in charts else f"{key}-{len(charts)}"


def _quantity_title(quantity: str) -> str:
    return CHUNKS[quantity].title if quantity in KNOWN else f"stage {plain(quantity, LONGEST_NAME)}"


def _display_names(engines: Sequence[str]) -> dict[str, str]:
    """A name to show for each engine: safe, short, and unique even where two begin alike."""
    shown: dict[str, str] = {}
    for engine in engines:
        name = plain(engine, LONGEST_NAME)
        shown[engine] = name if name not in shown.values() else f"{name} ({len(shown) + 1})"
    return shown


def _renamed(value: Any, display: Mapping[str, str]) -> Any:
    """The view with every engine under the name to show."""
    if isinstance(value, Mapping):
        return {key: display[item] if key == "engine" else _renamed(item, display) for key, item in value.items()}
    return [_renamed(item, display) for item in value] if isinstance(value, list) else value


def _waterfall(means: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """The parts of mean word latency, stacked; parts that no engine has are left out."""
    parts = list(dict.fromkeys(row["part"] for row in means))
    parts = [part for part in parts if any(row["mean_ms"] for row in means if row["part"] == part)]
    titles = {part: WATERFALL[f"waterfall_{part}"].title for part in parts}
    rows = [
        {"engine": row["engine"], "part": titles[row["part"]], "order": parts.index(row["part"]), "ms": row["mean_ms"]}
        for row in means
        if row["part"] in titles
    ]
    measured = [name for name in names if any(row["engine"] == name for row in rows)]
    colours = {titles[part]: ink(f"part-{part}") for part in parts}
    return Chart(
        "Why a word takes so long",
        spec_of(_bars(rows, measured, colours) + _totals(rows, measured), 44 * len(measured) + 20),
        "Mean wait for a word, split by cause, in milliseconds. "
        + " ".join(_waterfall_text(rows, name) for name in measured),
        tuple(Key(title, colour) for title, colour in colours.items()),
    )


def _bars(rows: Sequence[Mapping[str, Any]], measured: Sequence[str], colours: Mapping[str, str]) -> alt.Chart:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    bars = chart_of(rows).mark_bar(stroke=ink("card"), strokeWidth=1, height={"band": 0.68})
    return bars.encode(
        y=_engine_axis(measured),
        x=alt.X("ms:Q", stack="zero", title="mean wait for a word, ms", axis=alt.Axis(tickCount=5)),
        color=alt.Color("part:N", scale=scale, sort=list(colours)),
        order=alt.Order("order:Q"),
        tooltip=[
            alt.Tooltip("engine:N"),
            alt.Tooltip("part:N"),
            alt.Tooltip("ms:Q", format=VALUES, title="mean, ms"),
        ],
    )


def _totals(rows: Sequence[Mapping[str, Any]], measured: Sequence[str]) -> alt.Chart:
    """The sum of the parts, at the end of the bar; parts below zero are on its other side."""
    own = {name: [row["ms"] for row in rows if row["engine"] == name] for name in measured}
    ends = [
        {"engine": name, "label": f"{sum(parts):.0f} ms", "end": sum(part for part in parts if part > 0)}
        for name, parts in own.items()
    ]
    text = chart_of(ends).mark_text(align="left", dx=6, fontSize=12, fill=ink("ink"))
    return text.encode(y=_engine_axis(measured), x=alt.X("end:Q"), text=alt.Text("label:N"))


def _engine_axis(measured: Sequence[str]) -> alt.Y:
    axis = alt.Axis(labelColor=ink("ink"), labelLimit=150, grid=False)
    return alt.Y("engine:N", sort=list(measured), title=None, axis=axis)


def _waterfall_text(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    own = [row for row in rows if row["engine"] == name]
    parts = ", ".join(f"{row['part']} {format_digits(row['ms'])}" for row in own if row["ms"])
    return f"{name}: {sum(row['ms'] for row in own):.0f}, of which {parts}."


def _positions(positions: Mapping[str, Any], names: Sequence[str]) -> Chart:
    """Dots for words, and a line and a band for the middle of each stretch of the utterance."""
    points, groups = positions["points"], positions["groups"]
    shown = [name for name in names if any(row["engine"] == name for row in points)]
    # A layer without rows would give the axis an empty domain.
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
    axis = alt.Axis(grid=False, format=TICKS, tickCount=8)
    return alt.X("at_s:Q", title="the word ends at, s into the utterance", axis=axis)


def _dots(points: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    latencies = [row["latency_s"] for row in points]
    ticks = covering(LATENCY_TICKS_S, min(latencies), max(latencies))
    ends = [min(ticks[0], *latencies), max(ticks[-1], *latencies)]
    scale = alt.Scale(type="symlog", constant=0.3, domain=ends, nice=False)
    title = "word latency, s (symlog: stretched around 0)"
    y = alt.Y("latency_s:Q", scale=scale, title=title, axis=alt.Axis(values=ticks, format=TICKS))
    dots = chart_of(points).mark_point(filled=True, size=14, opacity=0.3)
    return dots.encode(x=_along(), y=y, color=colour(names, shown), shape=shape(names, shown))


def _middle(
    groups: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]
) -> tuple[alt.Chart, alt.Chart]:
    band = chart_of(groups).mark_area(opacity=0.2)
    line = chart_of(groups).mark_line(strokeWidth=2.5, point={"size": 40})
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("at_s:Q", title="around, s", format=VALUES),
        *(alt.Tooltip(f"p{p}_s:Q", title=f"P{p}, s", format=VALUES) for p in (25, 50, 75)),
        alt.Tooltip("n:Q", title="words"),
    ]
    inked = colour(names, shown)
    return (
        band.encode(x=_along(), y=alt.Y("p25_s:Q"), y2=alt.Y2("p75_s:Q"), color=inked),
        line.encode(x=_along(), y=alt.Y("p50_s:Q"), color=inked, strokeDash=dash(names, shown), tooltip=tooltip),
    )


def _trend(name: str, groups: Sequence[Mapping[str, Any]]) -> str:
    own = [row for row in groups if row["engine"] == name]
    if len(own) < 2:
        return f"{name}: too few words for a trend."
    first, last = own[0], own[-1]
    return (
        f"{name}: median {format_digits(first['p50_s'], 2)} s around {format_digits(first['at_s'], 2)} s "
        f"into the utterance, {format_digits(last['p50_s'], 2)} s around {format_digits(last['at_s'], 2)} s."
    )


def _ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def _histogram(title: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """How often a chunk took how long, on a logarithmic axis."""
    shown = [entry["engine"] for entry in entries]
    marks = _percentiles(entries)
    layers = [_steps(entries, names, shown), _rules(marks, names, shown)]
    if len(shown) <= MOST_LABELLED:
        layers += [_labels(marks, name, row, names.index(name)) for row, name in enumerate(shown)]
    return Chart(
        title,
        spec_of(alt.layer(*layers), DISTRIBUTION_HEIGHT),
        _distribution_text(title, entries),
        engine_keys(names, shown),
    )


def _ecdf(title: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """The share of chunks that were done within a time."""
    shown = [entry["engine"] for entry in entries]
    points = chart_of(_percentiles(entries)).mark_point(
        filled=True, size=70, opacity=1, stroke=ink("card"), strokeWidth=1
    )
    layers = (
        _curves(entries, names, shown),
        points.encode(
            x=alt.X("ms:Q"), y=alt.Y("p:Q"), color=colour(names, shown), shape=shape(names, shown), tooltip=_tooltip()
        ),
    )
    spec = spec_of(alt.layer(*layers), DISTRIBUTION_HEIGHT)
    return Chart(f"{title}, cumulative", spec, _distribution_text(title, entries), engine_keys(names, shown))


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
            x=alt.X("ms:Q"),
            color=colour(names, shown),
            strokeDash=alt.StrokeDash("which:N", scale=dashes, legend=None),
            tooltip=_tooltip(),
        )
    )


def _labels(marks: Sequence[Mapping[str, Any]], name: str, row: int, index: int) -> alt.Chart:
    """`P50` and `P95` above the rules of one engine, a line higher for each engine so that none overlap."""
    own = [mark for mark in marks if mark["engine"] == name]
    if len({mark["ms"] for mark in own}) < len(own):
        own = [{**own[0], "which": "P50 = P95"}]
    text = chart_of(own).mark_text(fontSize=11, dy=-7 - 13 * row, fill=engine_ink(index))
    return text.encode(x=alt.X("ms:Q"), y=alt.YValue(0), text=alt.Text("which:N"))


def _curves(entries: Sequence[Mapping[str, Any]], names: Sequence[str], shown: Sequence[str]) -> alt.Chart:
    corners = []
    for entry in entries:
        # From 0 at the left edge to 1 at the right one: a curve that ends in between looks cut off.
        ends = [[entry["edges_ms"][0], 0.0], *entry["ecdf"], [entry["edges_ms"][-1], 1.0]]
        corners += [
            {"engine": entry["engine"], "ms": ms, "share": share, "order": i} for i, (ms, share) in enumerate(ends)
        ]
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.95, 1], format="~%")
    lines = chart_of(corners).mark_line(interpolate="step-after", strokeWidth=2)
    return lines.encode(
        x=_milliseconds(entries),
        y=alt.Y("share:Q", title="share within", axis=axis),
        order=alt.Order("order:Q"),
        color=colour(names, shown),
        strokeDash=dash(names, shown),
    )


def _percentiles(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """P50 and P95 of each engine, where the sample supports them, at the end of the axis where they are below it."""
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
        alt.Tooltip("ms:Q", title="ms", format=VALUES),
        alt.Tooltip("n:Q", title="chunks"),
    ]


def _distribution_text(title: str, entries: Sequence[Mapping[str, Any]]) -> str:
    sentences = []
    for entry in entries:
        marks = [f"P{p} {_ms(entry[f'p{p}_ms'])}" for p in (50, 95)]
        share = 100 * entry["below_axis"] / entry["n"]
        tail = f", {share:.0f} % of them shorter than the axis and drawn at its left end" if share >= 1 else ""
        sentences.append(f"{entry['engine']}: {', '.join(marks)} ({entry['n']} chunks{tail})")
    return f"{title[:1].upper()}{title[1:]}, per chunk. {'; '.join(sentences)}."


def _ms(value: float | None) -> str:
    return "–, too few chunks" if value is None else f"{format_digits(value)} ms"


def _milliseconds(entries: Sequence[Mapping[str, Any]]) -> alt.X:
    edges = entries[0]["edges_ms"]
    scale = alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)
    return alt.X("ms:Q", scale=scale, title="ms (logarithmic)", axis=alt.Axis(grid=False, format=TICKS, tickCount=6))
