"""The charts of a loss run: time with whiskers, time against memory, and time against batch size and vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from stopwav.piece import Piece
from stopwav.record import Result
from stopwav.report.axis import TICKS, log_scale, log_ticks
from stopwav.report.chart import VALUES, Chart, chart_of, colour, dash, engine_keys, ink, shape, spec_of
from stopwav.report.text import format_bytes, format_digits, format_interval, plain
from stopwav.studies.loss.document import by_setting, compared_text, loss_name, peak_metric, setting_text
from stopwav.studies.loss.traces import profiles_of
from stopwav.studies.study import StudyRun

# Room for a bar and its name.
ROW_HEIGHT = 34
CHART_HEIGHT = 300
# The part of the height that a line of text takes, and of the width of a phone that a name does: of points that are
# nearer than both, one has its name in the chart.
LABEL_HEIGHT, NAME_WIDTH = 1 / 20, 1 / 2


def loss_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them."""
    results = run.results
    groups = [[result for result in group if result.metrics] for group in by_setting(results)]
    # Those that have a mark in the charts first, so that their colours differ.
    ordered = sorted(results, key=lambda result: not result.metrics)
    names = list(dict.fromkeys(loss_name(result) for result in ordered))
    charts: dict[str, Chart] = {}
    for number, group in enumerate((group for group in groups if group), start=1):
        suffix = f"-{number}" if len(groups) > 1 else ""
        charts[f"time{suffix}"] = _bars(group, names)
        if _points(group):
            charts[f"memory{suffix}"] = _time_against_memory(group, names)
    measured = [result for group in groups for result in group]
    for metric, title in (("batch_size", "batch size"), ("vocab", "vocabulary")):
        if len({result.params[metric] for result in measured}) > 1:
            charts[f"over-{metric.replace('_', '-')}"] = _curves(measured, names, metric, title)
    for number, piece in enumerate(profiles_of(run.record), start=1):
        if piece.data["memory"] is not None:
            charts[f"profile-{number}"] = _memory_over_time(piece)
    return charts


def _memory_over_time(piece: Piece) -> Chart:
    """The memory that was allocated in the recorded steps, one after the other."""
    device, points = piece.data["memory"]["device"], piece.data["memory"]["points"]
    rows = [{"s": at_s, "MB": allocated / 1e6} for at_s, allocated in points]
    line = (
        chart_of(rows)
        .mark_line(interpolate="step-after", strokeWidth=1.5, stroke=ink("engine-0"))
        .encode(
            x=alt.X("s:Q", title="s since the trace began", axis=alt.Axis(grid=False)),
            y=alt.Y("MB:Q", title=f"MB allocated on {device}"),
            tooltip=[alt.Tooltip("s:Q", format=VALUES), alt.Tooltip("MB:Q", format=VALUES)],
        )
    )
    highest = max(rows, key=lambda row: row["MB"])
    about = f"Peak {format_bytes(1e6 * highest['MB'])}, {format_digits(highest['s'])} s into the first trace."
    where = f"{plain(str(piece.key[1]), 40)} ({piece.key[2]})"
    return Chart(f"Memory over time: {where}", spec_of(alt.layer(line), CHART_HEIGHT), about)


def _bars(group: Sequence[Result], names: Sequence[str]) -> Chart:
    rows = []
    for result in group:
        step = result.metrics["step_time"]
        value = step.value or 0.0
        low, high = (value if end is None else end for end in (step.low, step.high))
        rows.append({"engine": loss_name(result), "ms": 1e3 * value, "low": 1e3 * low, "high": 1e3 * high})
    shown = [str(row["engine"]) for row in rows]
    y = alt.Y("engine:N", sort=shown, title=None, axis=alt.Axis(labelLimit=200, grid=False))
    tooltip = [alt.Tooltip("engine:N", title="loss"), alt.Tooltip("ms:Q", title="ms", format=VALUES)]
    bars = (
        chart_of(rows)
        .mark_bar(height=ROW_HEIGHT // 2)
        .encode(
            x=alt.X("ms:Q", title="step time, ms", scale=alt.Scale(zero=True)),
            y=y,
            color=colour(names, shown).legend(None),
            tooltip=tooltip,
        )
    )
    whiskers = (
        chart_of(rows).mark_rule(strokeWidth=1.5, stroke=ink("ink")).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
    )
    values = "; ".join(
        f"{loss_name(result)} {format_interval(result.metrics['step_time'], 1e3)} ms" for result in group
    )
    about = (
        f"Joiner, loss and backward of one batch, mean over batches; whiskers: 95 % confidence interval. "
        f"{compared_text(group[0].params)}{values}."
    )
    spec = spec_of(alt.layer(bars, whiskers), ROW_HEIGHT * len(rows) + 20)
    return Chart(f"Step time: {setting_text(group[0])}", spec, about)


def _points(group: Sequence[Result]) -> list[dict[str, Any]]:
    metric = peak_metric(group)
    return [
        {"engine": loss_name(result), "ms": 1e3 * (result.metrics["step_time"].value or 0.0), "mb": peak / 1e6}
        for result in group
        # A peak below what the process held before has no place on a logarithmic axis.
        if (peak := result.metrics[metric].value) is not None and peak > 0
    ]


def _labelled(rows: Sequence[dict[str, Any]], times: Sequence[float], sizes: Sequence[float]) -> list[dict[str, Any]]:
    """The points, with names at those that are far enough from others; the legend names them all."""
    height, width = (times[-1] / times[0]) ** LABEL_HEIGHT, (sizes[-1] / sizes[0]) ** NAME_WIDTH
    named: list[dict[str, Any]] = []
    for row in rows:
        if not any(_near(row, other, "ms", height) and _near(row, other, "mb", width) for other in named):
            named.append(row)
    return [{**row, "label": row["engine"] if row in named else ""} for row in rows]


def _near(row: dict[str, Any], other: dict[str, Any], field: str, ratio: float) -> bool:
    return bool(max(row[field], other[field]) < ratio * min(row[field], other[field]))


def _time_against_memory(group: Sequence[Result], names: Sequence[str]) -> Chart:
    points = _points(group)
    sizes, times = log_ticks(row["mb"] for row in points), log_ticks(row["ms"] for row in points)
    rows = _labelled(points, times, sizes)
    shown = [str(row["engine"]) for row in rows]
    peak_title = "peak memory, excluding inputs, MB"
    base = chart_of(rows).encode(
        x=alt.X("mb:Q", scale=log_scale(sizes), title=peak_title, axis=alt.Axis(format=TICKS, values=sizes)),
        y=alt.Y("ms:Q", scale=log_scale(times), title="step time, ms", axis=alt.Axis(format=TICKS, values=times)),
    )
    marks = base.mark_point(filled=True, size=110, opacity=1).encode(
        color=colour(names, shown).legend(None),
        shape=shape(names, shown).legend(None),
        tooltip=[
            alt.Tooltip("engine:N", title="loss"),
            alt.Tooltip("ms:Q", format=VALUES),
            alt.Tooltip("mb:Q", title="MB", format=VALUES),
        ],
    )
    labels = base.mark_text(align="left", dx=10, fontSize=11, fill=ink("ink")).encode(text=alt.Text("label:N"))
    values = "; ".join(
        f"{row['engine']} {format_digits(row['ms'])} ms, {format_bytes(1e6 * row['mb'])}" for row in rows
    )
    about = f"The nearer to the lower left corner the better; both axes logarithmic. {values}."
    title = f"Time against memory: {setting_text(group[0])}"
    return Chart(title, spec_of(alt.layer(marks, labels), CHART_HEIGHT), about, engine_keys(names, shown))


def _curves(measured: Sequence[Result], names: Sequence[str], param: str, title: str) -> Chart:
    """Time over the setting that was varied, with the other setting at its smallest."""
    other = "vocab" if param == "batch_size" else "batch_size"
    smallest = min(int(str(result.params[other] or 0)) for result in measured)
    rows: list[dict[str, Any]] = [
        {"engine": loss_name(result), "x": result.params[param], "ms": 1e3 * (result.metrics["step_time"].value or 0.0)}
        for result in measured
        if (result.params[other] or 0) == smallest
    ]
    shown = list(dict.fromkeys(str(row["engine"]) for row in rows))
    ticks = alt.Axis(grid=False, format=TICKS, values=sorted({int(str(row["x"])) for row in rows}))
    scale = alt.Scale(type="log", nice=False, padding=16)
    times = log_ticks(row["ms"] for row in rows)
    base = chart_of(rows).encode(
        x=alt.X("x:Q", scale=scale, title=title, axis=ticks),
        y=alt.Y("ms:Q", scale=log_scale(times), title="step time, ms", axis=alt.Axis(format=TICKS, values=times)),
        color=colour(names, shown).legend(None),
    )
    lines = base.mark_line(strokeWidth=1.5).encode(strokeDash=dash(names, shown).legend(None))
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(shape=shape(names, shown).legend(None))
    about = (
        "Both axes logarithmic: a slope of 1 is a time that grows in proportion. "
        f"{' '.join(_curve_text([row for row in rows if row['engine'] == name], title) for name in shown)}"
    )
    return Chart(
        f"Step time over {title}", spec_of(alt.layer(lines, marks), CHART_HEIGHT), about, engine_keys(names, shown)
    )


def _curve_text(rows: Sequence[dict[str, Any]], title: str) -> str:
    """The first and the last point of a line."""
    first, last = min(rows, key=lambda row: row["x"]), max(rows, key=lambda row: row["x"])
    ends = f"{format_digits(first['ms'])} ms at {title} {first['x']}, {format_digits(last['ms'])} ms at {last['x']}"
    return f"{first['engine']}: {ends}."
