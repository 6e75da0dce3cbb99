"""The charts of a load run: latency over streams with the objective, waits by level, sessions over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.report.axis import TICKS
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
from stopwav.report.text import counted, format_digits, plain
from stopwav.studies.load.definitions import DEFINITIONS, WAITS
from stopwav.studies.study import StudyRun

LONGEST_NAME = 40
# Levels whose sessions are drawn: more would not fit a page side by side.
MOST_PANELS = 8


def load_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them."""
    view = run.view
    names = [plain(name, LONGEST_NAME) for name in view["targets"]]
    charts: dict[str, Chart] = {}
    for metric, limit_s in view["conditions"]:
        rows = [_renamed(row) for row in view["curves"] if row["metric"] == metric]
        if rows:
            charts[f"curve-{metric}"] = _curve(metric, limit_s, rows, names, view["capacity"])
    for number, (target, name) in enumerate(zip(view["targets"], names, strict=True)):
        waits = [row for row in view["waits"] if row["target"] == target]
        if waits:
            charts[f"waits-{number}"] = _waits(waits, name if len(names) > 1 else "")
        sessions = [row for row in view["sessions"] if row["target"] == target]
        if sessions:
            charts[f"sessions-{number}"] = _sessions(sessions, name if len(names) > 1 else "", engine_ink(number))
        memory = [row for row in view["memory"] if row["target"] == target]
        if memory:
            charts[f"memory-{number}"] = _memory(memory, name if len(names) > 1 else "", engine_ink(number))
    return charts


def _renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "engine": plain(row["target"], LONGEST_NAME)}


def _of(name: str) -> str:
    return f" of {name}" if name else ""


def _streams_axis(rows: Sequence[Mapping[str, Any]]) -> alt.X:
    levels = sorted({row["streams"] for row in rows})
    axis = alt.Axis(values=levels, format=TICKS, grid=False)
    # Levels double, so that on a linear axis the first of them would stand on each other.
    scale = alt.Scale(type="log", nice=False, padding=18)
    return alt.X("streams:Q", scale=scale, title="streams at once", axis=axis)


def _curve(
    metric: str,
    limit_s: float,
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    capacity: Mapping[str, Sequence[float | None]],
) -> Chart:
    """P50 and the limited percentile by level; a rule for the limit, and one for each capacity."""
    family, _, percent = metric.rpartition("_p")
    title = DEFINITIONS.short_title(f"{family}_p{percent}").rpartition(" P")[0]
    shown = [name for name in names if any(row["engine"] == name for row in rows)]
    y = alt.Y("seconds:Q", scale=alt.Scale(zero=True), title=f"{title}, s", axis=alt.Axis(format=TICKS, tickCount=6))
    base = chart_of(rows).encode(
        x=_streams_axis(rows), y=y, color=colour(names, shown), detail=alt.Detail("percentile:N")
    )
    lines = base.mark_line(strokeWidth=2.5).encode(
        opacity=alt.condition(alt.datum.percentile == "P50", alt.value(0.45), alt.value(1.0)),
        strokeDash=dash(names, shown),
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        shape=shape(names, shown),
        tooltip=[
            alt.Tooltip("engine:N", title="target"),
            alt.Tooltip("streams:Q"),
            alt.Tooltip("percentile:N"),
            alt.Tooltip("seconds:Q", format=VALUES, title="s"),
            alt.Tooltip("verdict:N"),
        ],
    )
    limit = chart_of([{"limit": limit_s, "label": f"objective: P{percent} below {limit_s:g} s"}])
    rule = limit.mark_rule(stroke=ink("caution"), strokeWidth=2, strokeDash=[6, 3]).encode(y=alt.Y("limit:Q"))
    # On the left, where few streams keep the lines below it.
    label = limit.mark_text(align="left", dx=4, dy=-7, fontSize=12, fill=ink("caution")).encode(
        x=alt.XValue(0), y=alt.Y("limit:Q"), text=alt.Text("label:N")
    )
    layers = [lines, dots, rule, label, *_capacity_rules(capacity, names, rows)]
    return Chart(
        f"{title[:1].upper()}{title[1:]} over streams",
        spec_of(alt.layer(*layers), 300),
        f"{title} at P{percent} and, paler, at P50, by streams at once; the objective allows {limit_s:g} s. "
        + " ".join(_curve_text(name, percent, rows) for name in shown),
        engine_keys(names, shown),
    )


def _capacity_rules(
    capacity: Mapping[str, Sequence[float | None]], names: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> list[alt.Chart]:
    """A vertical line where the capacity of each target is; one of none is not on a logarithmic axis."""
    marks = []
    measured = {row["streams"] for row in rows}
    for target, (value, _, _) in capacity.items():
        name = plain(target, LONGEST_NAME)
        if value and measured and name in names:
            one = chart_of([{"streams": value, "label": f"capacity {value:g}"}])
            inked = engine_ink(names.index(name))
            rule = one.mark_rule(stroke=inked, strokeWidth=1.5, strokeDash=[2, 3]).encode(x=alt.X("streams:Q"))
            text = one.mark_text(align="left", dx=5, fontSize=12, fill=inked, baseline="top")
            marks += [
                rule,
                text.encode(x=alt.X("streams:Q"), y=alt.YValue(4 + 16 * names.index(name)), text=alt.Text("label:N")),
            ]
    return marks


def _curve_text(name: str, percent: str, rows: Sequence[Mapping[str, Any]]) -> str:
    own = sorted(
        (row for row in rows if row["engine"] == name and row["percentile"] == f"P{percent}"),
        key=lambda r: r["streams"],
    )
    points = ", ".join(f"{row['streams']}: {format_digits(row['seconds'])} s" for row in own)
    return f"{name}: {points}."


def _waits(rows: Sequence[Mapping[str, Any]], name: str) -> Chart:
    """The parts of mean word latency, a bar per level."""
    parts = list(dict.fromkeys(row["part"] for row in rows))
    titles = {part: WAITS[f"waterfall_{part}"].title for part in parts}
    values = [{**row, "part": titles[row["part"]], "order": parts.index(row["part"])} for row in rows]
    colours = {titles[part]: ink(f"part-{part}") for part in parts}
    levels = sorted({row["streams"] for row in rows})
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    bars = (
        chart_of(values)
        .mark_bar(stroke=ink("card"), strokeWidth=1)
        .encode(
            y=alt.Y(
                "streams:O", sort=levels, title="streams at once", axis=alt.Axis(labelColor=ink("ink"), grid=False)
            ),
            x=alt.X("ms:Q", stack="zero", title="mean wait for a word, ms", axis=alt.Axis(tickCount=8, format=TICKS)),
            color=alt.Color("part:N", scale=scale, sort=list(colours)),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("streams:O"),
                alt.Tooltip("part:N"),
                alt.Tooltip("ms:Q", format=VALUES, title="mean, ms"),
            ],
        )
    )
    totals = {level: sum(row["ms"] for row in rows if row["streams"] == level) for level in levels}
    return Chart(
        f"What the wait consists of{_of(name)}",
        spec_of(alt.layer(bars), 26 * len(levels) + 30),
        "Mean wait for a word by cause, a bar per level. "
        + " ".join(f"{counted(level, 'stream')}: {format_digits(total)} ms." for level, total in totals.items()),
        tuple(Key(title, inked) for title, inked in colours.items()),
    )


def _sessions(rows: Sequence[Mapping[str, Any]], name: str, inked: str) -> Chart:
    """A dot per session: when it began, and how long its final text took; a panel per level."""
    levels = sorted({row["streams"] for row in rows})
    step = -(-len(levels) // MOST_PANELS)
    kept = levels[::-1][::step][::-1]
    chosen = [row for row in rows if row["streams"] in kept]
    dots = (
        chart_of(chosen)
        .mark_circle(size=26, opacity=0.55, fill=inked)
        .encode(
            x=alt.X("at_s:Q", title="session began, s", axis=alt.Axis(grid=False, tickCount=4, format=TICKS)),
            y=alt.Y("seconds:Q", title="finalization latency, s", axis=alt.Axis(tickCount=4, format=TICKS)),
            tooltip=[
                alt.Tooltip("streams:Q"),
                alt.Tooltip("at_s:Q", format=VALUES),
                alt.Tooltip("seconds:Q", format=VALUES),
            ],
        )
    )
    column = alt.Color("streams:N", scale=alt.Scale(domain=kept, range=[inked] * len(kept)))
    if len(kept) == 1:
        layered = alt.layer(dots)
    else:
        layered = alt.layer(
            dots.encode(color=column, opacity=alt.Opacity("streams:O", scale=alt.Scale(domain=kept, range=[0.25, 0.9])))
        )
    return Chart(
        f"Sessions over time{_of(name)}",
        spec_of(layered, 220),
        "A dot per session: when it began and how long its final text took after the last word; the more streams, the "
        f"darker. {' '.join(_sessions_text(level, chosen) for level in kept)}",
    )


def _sessions_text(level: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """The least and the most that final texts of a level took."""
    took = [row["seconds"] for row in rows if row["streams"] == level]
    return f"{counted(level, 'stream')}: {format_digits(min(took))} to {format_digits(max(took))} s."


def _memory(rows: Sequence[Mapping[str, Any]], name: str, inked: str) -> Chart:
    """Memory of the server in the steady part of each level."""
    levels = sorted({row["streams"] for row in rows})
    lines = (
        chart_of(rows)
        .mark_line(stroke=inked)
        .encode(
            x=alt.X("at_s:Q", title="s since the level began", axis=alt.Axis(grid=False, tickCount=6, format=TICKS)),
            y=alt.Y(
                "mb:Q",
                title="memory of the server, MB",
                scale=alt.Scale(zero=False),
                axis=alt.Axis(tickCount=5, format=TICKS),
            ),
            detail=alt.Detail("streams:N"),
            opacity=alt.Opacity("streams:O", scale=alt.Scale(domain=levels, range=[0.35, 1.0])),
            tooltip=[
                alt.Tooltip("streams:Q"),
                alt.Tooltip("at_s:Q", format=VALUES),
                alt.Tooltip("mb:Q", format=VALUES),
            ],
        )
    )
    ends = {level: [row["mb"] for row in rows if row["streams"] == level] for level in levels}
    return Chart(
        f"Memory of the server{_of(name)}",
        spec_of(alt.layer(lines), 180),
        "Resident memory of all processes of the server; the more streams, the darker. "
        + " ".join(
            f"{counted(level, 'stream')}: {format_digits(values[0])} to {format_digits(values[-1])} MB."
            for level, values in ends.items()
        ),
    )
