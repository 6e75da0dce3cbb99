"""The chart of a metric over the runs of a folder: a line per engine, machine and setting, a mark per run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from stopwav.record import Result
from stopwav.report.axis import TICKS
from stopwav.report.chart import SHAPES, Chart, chart_of, colour, dash, engine_keys, spec_of
from stopwav.report.history import PastRun, Point, display_scale, iso_time, metrics_of, points_of, title_of
from stopwav.report.level_shift import LevelShift, LevelShifts, change_text, level_text
from stopwav.report.text import format_digits, plain

HEIGHT = 240


def history_charts(runs: Sequence[PastRun], found: LevelShifts) -> dict[str, Chart]:
    """Return a chart for every metric, by its name."""
    charts = {}
    # Of every engine that has a point somewhere, so that it has the same colour in each chart.
    names = list(dict.fromkeys(plain(result.name, 80) for run in runs for result in run.results if _is_drawn(result)))
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
            charts[metric] = history_chart(title, unit, meaning, points, marks, names)
    return charts


def _is_drawn(result: Result) -> bool:
    return result.status == "ok" and any(estimate.value is not None for estimate in result.metrics.values())


def _mark(shift: LevelShift, levels: str) -> dict[str, str]:
    """A change point as the chart marks it: halfway between the two runs, as either may be nearer to the cause."""
    text = f"{shift.name}: {levels} {change_text(shift)}, between {shift.before.started} and {shift.after.started}"
    middle_s = (shift.before.time_s + shift.after.time_s) / 2
    return {"time": iso_time(middle_s), "engine": shift.name, "text": plain(text)}


def history_chart(
    title: str,
    unit: str,
    meaning: str,
    points: Sequence[Point],
    shifts: Sequence[Mapping[str, str]] = (),
    names: Sequence[str] = (),
) -> Chart:
    """Return the chart of some points; it begins at 0, lest noise look like a trend.

    `names` are the engines of all charts of the page, in the order of their colours.
    """
    engines = list(dict.fromkeys(point.engine for point in points))
    names = names or engines
    layers = [*_lines(points, engines, names, unit), *_uprights(shifts, engines, names)]
    about = " ".join(filter(None, (meaning, *(_level_text(points, name, unit) for name in engines), *_told(shifts))))
    heading = ", ".join(filter(None, (title, unit_text(unit))))
    return Chart(heading, spec_of(alt.layer(*layers), HEIGHT), about, engine_keys(names, engines))


def _lines(
    points: Sequence[Point], engines: Sequence[str], names: Sequence[str], unit: str
) -> tuple[alt.Chart, alt.Chart, alt.Chart]:
    """Lines, intervals and marks."""
    machines = list(dict.fromkeys(point.machine for point in points))
    shapes = alt.Scale(domain=machines, range=[SHAPES[index % len(SHAPES)] for index in range(len(machines))])
    base = chart_of(_rows(points)).encode(x=_time_axis(points), color=colour(names, engines).legend(None))
    value = alt.Y("value:Q", title=unit_text(unit), scale=alt.Scale(zero=True), axis=alt.Axis(format=TICKS))
    joined = base.mark_line(strokeWidth=1.5).encode(
        y=value, detail=alt.Detail("line:N"), strokeDash=dash(names, engines).legend(None)
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value,
        shape=alt.Shape("machine:N", scale=shapes, legend=None),
        tooltip=alt.Tooltip("text:N", title="run"),
        **({"href": alt.Href("href:N")} if any(point.href for point in points) else {}),
    )
    return joined, bars, marks


def _rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    lines = list(dict.fromkeys(point.line for point in points))
    return [
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


def _uprights(shifts: Sequence[Mapping[str, str]], engines: Sequence[str], names: Sequence[str]) -> Iterator[alt.Chart]:
    """The change points, where there are any: a layer without rows would give the axis an empty domain."""
    if shifts:
        yield (
            chart_of(shifts)
            .mark_rule(strokeDash=[4, 4], strokeWidth=2)
            .encode(
                x="time:T",
                color=colour(names, engines).legend(None),
                tooltip=alt.Tooltip("text:N", title="change point"),
            )
        )


def unit_text(unit: str) -> str:
    """Return the unit of an axis; "" where it has none."""
    return {"ratio": "", "count": "", "percent": "%"}.get(unit, unit)


def _time_axis(points: Sequence[Point]) -> alt.X:
    """Time in UTC, as the tables have it: days, and the hour too where there are few days."""
    span_s = max(point.time_s for point in points) - min(point.time_s for point in points)
    days = span_s / 86_400
    form = "%H:%M:%S" if span_s < 600 else "%H:%M" if days < 1 else "%-d %b %H:%M" if days < 4 else "%-d %b %Y"
    axis = alt.Axis(grid=False, tickCount=4, format=form)
    return alt.X("time:T", title="started, UTC", axis=axis, scale=alt.Scale(type="utc", padding=16))


def _level_text(points: Sequence[Point], name: str, unit: str) -> str:
    """The first and the newest value of an engine."""
    own = [point for point in points if point.engine == name]
    first, last = (f"{format_digits(point.value)} {unit_text(unit)}".rstrip() for point in (own[0], own[-1]))
    newest = f", {last} in the newest of {len(own)} runs" if len(own) > 1 else ""
    return f"{name}: {first}{newest}."


def _told(shifts: Sequence[Mapping[str, str]]) -> list[str]:
    """The change points in words."""
    return [f"Change point: {shift['text']}." for shift in shifts]
