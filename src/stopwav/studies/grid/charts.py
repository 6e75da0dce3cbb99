"""The charts of a grid: heat maps of pace and memory, and how the time of a batch grows along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from stopwav.record import Result
from stopwav.report.axis import TICKS, log_scale, log_ticks
from stopwav.report.chart import VALUES, Chart, Key, chart_of, colour, dash, engine_keys, ink, shape, spec_of
from stopwav.report.text import format_bytes, format_digits
from stopwav.stats import UNDECIDED
from stopwav.studies.grid.document import pace_note
from stopwav.studies.grid.layout_document import GridLayout, cell_text, grid_layouts
from stopwav.studies.growth import growth_curve
from stopwav.studies.study import StudyRun

FASTER, SLOWER, OPEN, ABSENT = "faster than real time", "slower than real time", "undecided", "not measured"
_SIDES = {"above": FASTER, "below": SLOWER, UNDECIDED: OPEN}
# A row of a heat map holds its label with room to spare.
ROW_HEIGHT = 44
# Pixels of a character of a label: a column too narrow for all of it shows what stands before the bracket or comma.
CHARACTER = 7
# Between these a colour is seen on either ground and text can be read on it.
PALEST, FULLEST = 0.12, 0.62
SCALING_HEIGHT = 300


def grid_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them."""
    grids = grid_layouts(run.results)
    charts: dict[str, Chart] = {}
    for number, (name, layout) in enumerate(grids.items(), start=1):
        own = _charts_of(layout) if layout.measured else {}
        if len(grids) > 1:
            own = {f"{key}-{number}": replace(chart, title=f"{name}: {chart.title}") for key, chart in own.items()}
        charts |= own
    return charts


def _charts_of(layout: GridLayout) -> dict[str, Chart]:
    """The charts of one engine."""
    charts = {"rtfx": _pace_map(layout)}
    for kind, title in (
        ("host", "Peak host memory"),
        ("allocated", "Peak allocated on the device"),
        ("reserved", "Peak reserved on the device"),
        ("device", "Peak in use on the device"),
    ):
        if layout.has(f"peak_{kind}_bytes"):
            charts[f"memory-{kind}"] = _memory_map(layout, f"peak_{kind}_bytes", title)
    for axis, name in (("duration", "scaling-duration"), ("batch size", "scaling-batch")):
        fits = [fit for fit in layout.fits if fit.params["axis"] == axis]
        if fits:
            charts[name] = _scaling(fits, axis)
    return charts


def _pace_map(layout: GridLayout) -> Chart:
    rows = []
    for place, cell in layout.cells.items():
        rtfx = cell.metrics["rtfx"].value if cell.metrics else None
        side = ABSENT if rtfx is None else _SIDES[str(cell.params["real_time"])]
        strength = 0.0 if rtfx is None else abs(math.log10(rtfx))
        rows.append(
            {**_places(*place), "label": cell_text(cell, "rtfx", intervals=False), "side": side, "by": strength}
        )
    inks = {FASTER: ink("engine-0"), SLOWER: ink("engine-1"), OPEN: ink("engine-3"), ABSENT: ink("muted")}
    shown = {side: inks[side] for side in inks if any(row["side"] == side for row in rows)}
    return Chart(
        "Times faster than real time (RTFx)",
        _heat_map(rows, layout, shown),
        f"Rows: seconds of audio; columns: batch size; the stronger the colour, the farther from real time. "
        f"{pace_note(layout)}",
        tuple(Key(*pair) for pair in shown.items()),
    )


def _memory_map(layout: GridLayout, metric: str, title: str) -> Chart:
    rows: list[dict[str, Any]] = []
    for place, cell in layout.cells.items():
        value = cell.metrics[metric].value if cell.metrics else None
        side = ABSENT if value is None else "measured"
        # From the smallest to the largest, not from zero: the model alone would make all cells look alike.
        rows.append({**_places(*place), "label": cell_text(cell, metric), "side": side, "by": value or 0.0})
    values = [row["by"] for row in rows if row["side"] == "measured"]
    lowest = min(values)
    rows = [{**row, "by": max(0.0, row["by"] - lowest)} for row in rows]
    inks = {"measured": ink("engine-2"), ABSENT: ink("muted")}
    shown = {side: inks[side] for side in inks if any(row["side"] == side for row in rows)}
    text = f"From {format_bytes(lowest)} to {format_bytes(max(values))}; in brackets what is over the loaded model."
    return Chart(title, _heat_map(rows, layout, shown), f"Rows: seconds of audio; columns: batch size. {text}")


def _heat_map(rows: Sequence[dict[str, Any]], layout: GridLayout, colours: dict[str, str]) -> dict[str, Any]:
    farthest = max(row["by"] for row in rows) or 1.0
    base = chart_of(rows).encode(
        x=alt.X(
            "batch:N",
            sort=[f"× {size}" for size in layout.batch_sizes],
            title="batch size",
            axis=alt.Axis(orient="top", grid=False, labelAngle=0),
        ),
        y=alt.Y(
            "duration:N",
            sort=[f"{d:g} s" for d in layout.durations],
            title="seconds of audio",
            axis=alt.Axis(grid=False),
        ),
    )
    cells = base.mark_rect(stroke=ink("card"), strokeWidth=2).encode(
        color=alt.Color("side:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None),
        opacity=alt.Opacity("by:Q", scale=alt.Scale(domain=[0, farthest], range=[PALEST, FULLEST]), legend=None),
    )
    room = f"width / {len(layout.batch_sizes)} >= {CHARACTER} * length(datum.label)"
    short = "replace(datum.label, regexp(' ?[(\\\\[,].*'), '')"
    labels = base.transform_calculate(shown=f"{room} ? datum.label : {short}")
    labels = labels.mark_text(fontSize=12, fill=ink("ink")).encode(text="shown:N")
    return spec_of(alt.layer(cells, labels), ROW_HEIGHT * len(layout.durations) + 40)


def _places(duration_s: float, size: int) -> dict[str, str]:
    return {"duration": f"{duration_s:g} s", "batch": f"× {size}"}


def _scaling(fits: Sequence[Result], axis: str) -> Chart:
    """Measured times as points, the fitted line as a line, a colour for each row or column of the grid."""
    names = [_line_name(fit) for fit in fits]
    points, curves = [], []
    for name, fit in zip(names, fits, strict=True):
        cells: Any = fit.params["cells"]
        points += [{"engine": name, "x": x, "s": time_s} for x, time_s in cells]
        curves += [{"engine": name, "x": x, "s": s} for x, s in growth_curve(fit) if s > 0]
    own = colour(names, names).legend(None)
    title = "seconds of audio" if axis == "duration" else "batch size"
    ticks = alt.Axis(grid=False, format=TICKS, values=sorted({point["x"] for point in points}))
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = alt.X("x:Q", scale=scale, title=title, axis=ticks)
    marks = log_ticks(row["s"] for row in (*points, *curves))
    y = alt.Y("s:Q", scale=log_scale(marks), title="time of a batch, s", axis=alt.Axis(format=TICKS, values=marks))
    tooltip = [
        alt.Tooltip("engine:N", title="of"),
        alt.Tooltip("x:Q", title=title, format=TICKS),
        alt.Tooltip("s:Q", title="s", format=VALUES),
    ]
    layers = (
        chart_of(curves)
        .mark_line(strokeWidth=1.5)
        .encode(x=x, y=y, color=own, strokeDash=dash(names, names).legend(None)),
        chart_of(points)
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x=x, y=y, color=own, shape=shape(names, names).legend(None), tooltip=tooltip),
    )
    # The fits themselves are listed below the chart.
    about = f"Points: measured; lines: the fitted line; both axes logarithmic. {_ends_text(fits, title)}"
    heading = f"Time of a batch over its {'duration' if axis == 'duration' else 'size'}"
    return Chart(heading, spec_of(alt.layer(*layers), SCALING_HEIGHT), about, engine_keys(names, names))


def _ends_text(fits: Sequence[Result], title: str) -> str:
    """The first and the last point of each line."""
    texts = []
    for fit in fits:
        cells: Any = fit.params["cells"]
        (first, first_s), (last, last_s) = cells[0], cells[-1]
        ends = f"{format_digits(first_s)} s at {title} {first:g}, {format_digits(last_s)} s at {last:g}"
        texts.append(f"{_line_name(fit)}: {ends}.")
    return " ".join(texts)


def _line_name(fit: Result) -> str:
    if fit.params["axis"] == "duration":
        return f"batch {fit.params['batch_size']}"
    return f"{fit.params['duration_s']:g} s"
