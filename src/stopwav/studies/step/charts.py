"""The charts of a step: an icicle of its rows, bars by kind of module, memory over the step, and its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.record import Result
from stopwav.report.chart import Chart, Key
from stopwav.report.chart_scales import chart_of, spec_of
from stopwav.report.numbers import format_bytes
from stopwav.report.palette import ink
from stopwav.report.plain import plain
from stopwav.report.step_layout import PHASES, Line, StepLayout, arrange_step

ROW_HEIGHT = 34
TIMELINE_HEIGHT = 260
# What a character of a label takes of the width; a box too narrow for three has none.
CHARACTER = 0.0115
FEWEST_CHARACTERS = 3
# Kinds of module that a chart of bars can hold.
MOST_KINDS = 14
TIME, MEMORY = "time", "memory held for the backward pass"
_PHASE_INKS = dict(zip(PHASES, (ink(f"engine-{index}") for index in (4, 0, 3, 1, 2, 6)), strict=True))


def step_charts(view: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Chart]:
    """The charts by name, in the order in which a page shows them."""
    layout = arrange_step(results)
    if not layout.step.metrics:
        return {}
    charts = {"icicle": _icicle(layout), "kinds": _kinds(layout)}
    if view.get("moments"):
        charts["memory-timeline"] = _timeline(view)
    strips = list(_strips(layout))
    if strips:
        charts["layers"] = _heat_strip(strips)
    return charts


def _icicle(layout: StepLayout) -> Chart:
    lines = layout.lines()
    rows = [*_boxes(lines, TIME), *_boxes(lines, MEMORY)]
    deepest = max(row["depth"] for row in rows)
    # In a file, and before anybody chooses, time is shown.
    shown = alt.param(name="shown", value=TIME, bind=alt.binding_select(options=[TIME, MEMORY], name="show "))
    x = alt.X(
        "from:Q", title="share of the step", axis=alt.Axis(format="%", grid=False), scale=alt.Scale(domain=[0, 1])
    )
    base = chart_of(rows).transform_filter("datum.mode == shown").encode(x=x)
    y = alt.Y("depth:O", title=None, axis=None)
    tooltip = [alt.Tooltip("path:N", title="row"), alt.Tooltip("told:N", title="takes")]
    boxes = base.mark_rect(stroke=ink("card"), strokeWidth=1).encode(
        x2="to:Q",
        y=y,
        color=alt.Color("side:N", scale=alt.Scale(domain=list(_SIDES), range=list(_SIDES.values())), legend=None),
        opacity=alt.Opacity("depth:O", scale=alt.Scale(range=[0.75, 0.3]), legend=None),
        tooltip=tooltip,
    )
    labels = base.mark_text(align="left", dx=4, fontSize=11, fill=ink("ink"))
    return Chart(
        "Where the step goes",
        spec_of(
            alt.layer(boxes, labels.encode(y=y, text="name:N")).add_params(shown),
            ROW_HEIGHT * (deepest + 1) + 40,
        ),
        "Each box is a row of the table, as wide as its share of the step's time, or of the memory held for the "
        "backward pass; below it lies what is inside it.",
        tuple(Key(side, colour) for side, colour in _SIDES.items()),
    )


_SIDES = {"module": ink("engine-0"), "stage": ink("engine-3"), "phase": ink("engine-6")}


def _boxes(lines: Sequence[Line], mode: str) -> Iterator[dict[str, Any]]:
    """The boxes of the lines, side by side inside the box of the row around them."""
    sizes = [_size(line.row, mode) for line in lines]
    whole = sum(size for size, line in zip(sizes, lines, strict=True) if line.depth == 0) or 1.0
    # Where the next box of each depth begins.
    starts: list[float] = [0.0]
    for size, line in zip(sizes, lines, strict=True):
        starts = [*starts[: line.depth + 1]]
        begin = starts[line.depth]
        starts[line.depth] += size
        starts.append(begin)
        if size > 0:
            kind = str(line.row.params["kind"])
            told = f"{100 * size:.1f} % of the step" if mode == TIME else format_bytes(size)
            yield {
                "mode": mode,
                "path": plain(line.row.name, 80),
                "name": _fitting(line.name, size / whole),
                "told": told,
                "depth": line.depth,
                "from": begin / whole,
                "to": (begin + size) / whole,
                "side": kind if kind in ("stage", "phase") else "module",
            }


def _fitting(name: str, width: float) -> str:
    """As much of a name as fits into a box of that part of the chart's width."""
    room = int(width / CHARACTER)
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= FEWEST_CHARACTERS else ""


def _size(row: Result, mode: str) -> float:
    estimate = row.metrics["share"] if mode == TIME else row.metrics.get("held_bytes")
    return 0.0 if estimate is None else estimate.value or 0.0


def _kinds(layout: StepLayout) -> Chart:
    """Own times by the class of module, so that all layers of a kind are one bar."""
    sums: dict[str, list[float]] = {}
    for row in layout.rows:
        if row.params["kind"] in ("layers", "phase"):
            continue
        name = str(row.params["type"] or row.params["label"] or row.name)
        one = sums.setdefault(plain(name, 40), [0.0, 0.0])
        one[0] += row.metrics["forward_self_time"].value or 0.0
        one[1] += row.metrics["backward_self_time"].value or 0.0
    most = sorted(sums, key=lambda name: -sum(sums[name]))[:MOST_KINDS]
    rows = [
        {"kind": name, "direction": direction, "ms": 1e3 * sums[name][at]}
        for name in most
        for at, direction in enumerate(("forward", "backward"))
    ]
    inks = {"forward": _PHASE_INKS["forward"], "backward": _PHASE_INKS["backward"]}
    bars = (
        chart_of(rows)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="ms of a step, own time", stack=True),
            y=alt.Y("kind:N", sort=most, title=None),
            color=alt.Color("direction:N", scale=alt.Scale(domain=list(inks), range=list(inks.values())), legend=None),
            order=alt.Order("direction:N", sort="descending"),
            tooltip=["kind:N", "direction:N", alt.Tooltip("ms:Q", format=".2f")],
        )
    )
    return Chart(
        "Forward and backward by kind of module",
        spec_of(alt.layer(bars), 26 * len(most) + 60),
        "Own time of all modules of a class, without what modules inside them take.",
        tuple(Key(name, colour) for name, colour in inks.items()),
    )


def _timeline(view: Mapping[str, Any]) -> Chart:
    rows: list[dict[str, Any]] = []
    for at, (row, phase, _, peak_bytes) in enumerate(view["moments"]):
        rows.append({"at": at, "MB": peak_bytes / 1e6, "phase": phase, "row": plain(str(row) or "model", 80)})
    seen = [name for name in PHASES if any(row["phase"] == name for row in rows)]
    colour = alt.Color("phase:N", scale=alt.Scale(domain=seen, range=[_PHASE_INKS[name] for name in seen]), legend=None)
    bars = chart_of(rows).mark_rect().encode(
        x=alt.X("at:Q", title="changes from row to row, in order", axis=alt.Axis(grid=False)),
        x2="next:Q",
        y=alt.Y("MB:Q", title="MB in use, most in each stretch"),
        y2="zero:Q",
        color=colour,
        tooltip=["row:N", "phase:N", alt.Tooltip("MB:Q", format=".1f")],
    ).transform_calculate(next="datum.at + 1", zero="0")  # fmt: skip
    highest = max(rows, key=lambda row: row["MB"])
    about = f"Most at {highest['row']}, {highest['phase']}: {format_bytes(highest['MB'] * 1e6)}."
    keys = tuple(Key(name, _PHASE_INKS[name]) for name in seen)
    return Chart("Memory over the step", spec_of(alt.layer(bars), TIMELINE_HEIGHT), about, keys)


def _strips(layout: StepLayout) -> Iterator[dict[str, Any]]:
    """The time of each layer in each row of repeated layers, against the mean of its row."""
    known = {row.name: row for row in layout.rows}
    for row in layout.rows:
        members: Any = row.params["members"]
        times = [known[one].metrics["total_time"].value or 0.0 for one in members]
        mean = sum(times) / len(times) if times else 0.0
        for at, (one, time_s) in enumerate(zip(members, times, strict=True)):
            if mean:
                yield {
                    "part": plain(row.name, 60),
                    "layer": at,
                    "path": plain(one, 80),
                    "ms": 1e3 * time_s,
                    "ratio": time_s / mean,
                }


def _heat_strip(rows: Sequence[dict[str, Any]]) -> Chart:
    parts = list(dict.fromkeys(row["part"] for row in rows))
    farthest = max(abs(row["ratio"] - 1) for row in rows) or 1.0
    scale = alt.Scale(domain=[1 - farthest, 1, 1 + farthest], range=[ink("engine-0"), ink("card"), ink("engine-1")])
    cells = (
        chart_of(rows)
        .mark_rect(stroke=ink("line"))
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0, grid=False)),
            y=alt.Y("part:N", sort=parts, title=None, axis=alt.Axis(grid=False, labelLimit=240)),
            color=alt.Color("ratio:Q", scale=scale, legend=None),
            tooltip=[
                "path:N",
                alt.Tooltip("ms:Q", format=".2f"),
                alt.Tooltip("ratio:Q", title="of the mean", format=".2f"),
            ],
        )
    )
    return Chart(
        "Layers beside each other",
        spec_of(alt.layer(cells), 30 * len(parts) + 50),
        "Each layer's time over the mean of its row: blue is quicker, orange is slower.",
    )
