"""The chart of a metric over the runs of a folder: a line per engine, machine and setting, a mark per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
from altair.utils.schemapi import debug_mode

from stopwav.report.chart import SHAPES, Chart, chart_of, colour, dash, engine_keys, spec_of
from stopwav.report.history import PastRun, Point, display_scale, iso_time, metrics_of, points_of, title_of
from stopwav.report.level_shift import LevelShift, LevelShifts, change_text, level_text
from stopwav.report.text import plain

HEIGHT = 240


def history_charts(runs: Sequence[PastRun], found: LevelShifts) -> dict[str, Chart]:
    """Return a chart for every metric, by its name."""
    charts = {}
    # Altair checks every part of every chart against its schema, which takes longer than all the rest; tests do it.
    with debug_mode(False):
        for metric in metrics_of(runs):
            scale, unit = display_scale(metric, runs)
            title, meaning = title_of(metric, runs)
            marks = [
                _mark(
                    shift,
                    f"{level_text(shift.before.value, scale, unit)} → {level_text(shift.after.value, scale, unit)}",
                )
                for shift in found.of(metric)
            ]
            points = points_of(metric, runs, scale, unit)
            charts[metric] = history_chart(f"{title}, {unit}", meaning, points, marks)
    return charts


def _mark(shift: LevelShift, levels: str) -> dict[str, str]:
    """A change point as the chart marks it: halfway between the two runs, as either may be nearer to the cause."""
    text = f"{shift.name}: {levels} {change_text(shift)}, between {shift.before.started} and {shift.after.started}"
    middle_s = (shift.before.time_s + shift.after.time_s) / 2
    return {"time": iso_time(middle_s), "engine": shift.name, "text": plain(text)}


def history_chart(title: str, meaning: str, points: Sequence[Point], shifts: Sequence[Mapping[str, str]] = ()) -> Chart:
    """Return the chart of some points; it begins at 0, lest noise look like a trend."""
    engines = list(dict.fromkeys(point.engine for point in points))
    machines = list(dict.fromkeys(point.machine for point in points))
    lines = list(dict.fromkeys(point.line for point in points))
    rows = [
        {
            "time": iso_time(point.time_s),
            "value": point.value,
            "low": point.value if point.low is None else point.low,
            "high": point.value if point.high is None else point.high,
            "engine": point.engine,
            "machine": point.machine,
            "line": str(lines.index(point.line)),
            "text": point.text,
            **({"href": point.href} if point.href else {}),
        }
        for point in points
    ]
    shapes = alt.Scale(domain=machines, range=[SHAPES[index % len(SHAPES)] for index in range(len(machines))])
    base = chart_of(rows).encode(
        x=alt.X("time:T", title=None, axis=alt.Axis(grid=False, tickCount=6), scale=alt.Scale(padding=16)),
        color=colour(engines, engines).legend(None),
    )
    value = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True))
    joined = base.mark_line(strokeWidth=1.5).encode(
        y=value, detail=alt.Detail("line:N"), strokeDash=dash(engines, engines).legend(None)
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value,
        shape=alt.Shape("machine:N", scale=shapes, legend=None),
        tooltip=alt.Tooltip("text:N", title="run"),
        **({"href": alt.Href("href:N")} if any(point.href for point in points) else {}),
    )
    layers = [joined, bars, marks]
    if shifts:
        uprights = chart_of(shifts).mark_rule(strokeDash=[4, 4], strokeWidth=2)
        layers.append(
            uprights.encode(
                x=alt.X("time:T"),
                color=colour(engines, engines).legend(None),
                tooltip=alt.Tooltip("text:N", title="change point"),
            )
        )
    return Chart(title, spec_of(alt.layer(*layers), HEIGHT), meaning, engine_keys(engines, engines))
