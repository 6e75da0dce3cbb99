"""The charts of a step: an icicle of its rows, bars by class of module, memory over the step, and its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from stopwav.measure.training_step import PHASES
from stopwav.record import Result
from stopwav.report.chart import Chart, Key, chart_of, ink, spec_of
from stopwav.report.text import format_bytes, format_digits, plain
from stopwav.studies.step.results import memory_pass
from stopwav.studies.step.tree import StepTree, TreeRow, members_of
from stopwav.studies.study import StudyRun

ROW_HEIGHT = 34
TIMELINE_HEIGHT = 260
# Pixels of the narrowest box that has its name in it, and between the name and the edge.
NARROWEST, MARGIN = 34, 7
# Layers, those of all rows together, that a chart of them can hold.
MOST_LAYERS = 2000
# Rows, classes or layers that the text of a chart names.
MOST_TOLD = 4
# Classes of modules that a chart of bars can hold.
MOST_KINDS = 14
TIME, MEMORY = "time", "saved activations"
_PHASE_INKS = dict(zip(PHASES, (ink(f"engine-{index}") for index in (4, 0, 3, 1, 2, 6)), strict=True))


def step_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them."""
    tree = StepTree(run.results)
    if not tree.step.metrics:
        return {}
    charts = {"icicle": _icicle(tree), "kinds": _classes(tree)}
    moments = memory_pass(run.record).get("moments", [])
    if moments:
        charts["memory-timeline"] = _timeline(moments)
    repeated = [row for row in tree.rows if members_of(row)]
    drawn = _drawn_layers(repeated)
    if layers := list(_layers(tree, drawn)):
        charts["layers"] = _heat_strip(layers, len(repeated) - len(drawn))
    return charts


def _icicle(tree: StepTree) -> Chart:
    shown_rows = tree.shown()
    rows = [*_boxes(shown_rows, TIME), *_boxes(shown_rows, MEMORY)]
    deepest = max(row["depth"] for row in rows)
    # A file shows time, and so does a page until the reader chooses.
    shown = alt.param(name="shown", value=TIME, bind=alt.binding_select(options=[TIME, MEMORY], name="show "))
    x = alt.X(
        "from:Q",
        title="share of the step",
        axis=alt.Axis(format="%", grid=False, tickCount=5),
        scale=alt.Scale(domain=[0, 1]),
    )
    base = chart_of(rows).transform_filter("datum.mode == shown").encode(x=x)
    y = alt.Y("depth:O", title=None, axis=None)
    tooltip = [alt.Tooltip("path:N", title="row"), alt.Tooltip("size:N", title="takes")]
    boxes = base.mark_rect(stroke=ink("card"), strokeWidth=1).encode(
        x2=alt.X2("to:Q"),
        y=y,
        color=alt.Color(
            "kind:N", scale=alt.Scale(domain=list(_KIND_INKS), range=list(_KIND_INKS.values())), legend=None
        ),
        opacity=alt.Opacity("depth:O", scale=alt.Scale(range=[0.75, 0.3]), legend=None),
        tooltip=tooltip,
    )
    # As much of a name as its box has room for, on a wide screen and on a telephone.
    wide = "(datum.to - datum.from) * width"
    labels = base.transform_filter(f"{wide} >= {NARROWEST}").mark_text(
        align="left", dx=4, fontSize=11, fill=ink("ink"), limit=alt.ExprRef(f"{wide} - {MARGIN}")
    )
    return Chart(
        "Where the step goes",
        spec_of(
            alt.layer(boxes, labels.encode(y=y, text=alt.Text("name:N"))).add_params(shown),
            ROW_HEIGHT * (deepest + 1) + 40,
        ),
        "Each box is a row of the table, as wide as its share of the step's time, or of the saved activations; its "
        f"children lie below it. {_widest_text(shown_rows)}",
        tuple(Key(kind, colour) for kind, colour in _KIND_INKS.items()),
    )


def _widest_text(rows: Sequence[TreeRow]) -> str:
    """The shares of the outermost rows and of what lies directly inside them, the largest first."""
    outer = sorted((row for row in rows if row.depth <= 1), key=lambda row: -_size(row.result, TIME))
    told = [f"{plain(row.name, 40)} {100 * _size(row.result, TIME):.1f} %" for row in outer[:MOST_TOLD]]
    return f"Of the time: {', '.join(told)}."


_KIND_INKS = {"module": ink("engine-0"), "stage": ink("engine-3"), "phase": ink("engine-6")}


def _boxes(rows: Sequence[TreeRow], mode: str) -> Iterator[dict[str, Any]]:
    """The boxes of the rows, side by side inside the box of their parent."""
    sizes = [_size(row.result, mode) for row in rows]
    whole = sum(size for size, row in zip(sizes, rows, strict=True) if row.depth == 0) or 1.0
    # Where the next box of each depth begins.
    starts: list[float] = [0.0]
    for size, row in zip(sizes, rows, strict=True):
        del starts[row.depth + 1 :]
        begin = starts[row.depth]
        starts[row.depth] += size
        starts.append(begin)
        if size > 0:
            kind = row.result.kind
            yield {
                "mode": mode,
                "path": plain(row.result.name, 80),
                "name": plain(row.name, 60),
                "size": f"{100 * size:.1f} % of the step" if mode == TIME else format_bytes(size),
                "depth": row.depth,
                "from": begin / whole,
                "to": (begin + size) / whole,
                "kind": kind if kind in ("stage", "phase") else "module",
            }


def _size(row: Result, mode: str) -> float:
    estimate = row.metrics["share"] if mode == TIME else row.metrics.get("held_bytes")
    return 0.0 if estimate is None else estimate.value or 0.0


def _classes(tree: StepTree) -> Chart:
    """Own times by the class of module, so that all layers of a class are one bar."""
    sums: dict[str, dict[str, float]] = {}
    for row in tree.rows:
        if row.kind in ("layers", "phase"):
            continue
        name = str(row.params["type"] or row.params["label"] or row.name)
        times = sums.setdefault(plain(name, 40), {"forward": 0.0, "backward": 0.0})
        for direction in times:
            times[direction] += row.metrics[f"{direction}_self_time"].value or 0.0
    most = sorted(sums, key=lambda name: -sum(sums[name].values()))[:MOST_KINDS]
    rows = [
        {"kind": name, "direction": direction, "ms": 1e3 * time_s}
        for name in most
        for direction, time_s in sums[name].items()
    ]
    inks = {"forward": _PHASE_INKS["forward"], "backward": _PHASE_INKS["backward"]}
    bars = (
        chart_of(rows)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="ms per step, own time", stack=True),
            y=alt.Y("kind:N", sort=most, title=None),
            color=alt.Color("direction:N", scale=alt.Scale(domain=list(inks), range=list(inks.values())), legend=None),
            order=alt.Order("direction:N", sort="descending"),
            tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("direction:N"), alt.Tooltip("ms:Q", format=".2f")],
        )
    )
    return Chart(
        "Forward and backward by class of module",
        spec_of(alt.layer(bars), 26 * len(most) + 60),
        "Own time of all modules of a class, without that of modules inside them: "
        + ", ".join(f"{name} {format_digits(1e3 * sum(sums[name].values()))} ms" for name in most[:MOST_TOLD])
        + " per step.",
        tuple(Key(name, colour) for name, colour in inks.items()),
    )


def _timeline(moments: Sequence[Sequence[Any]]) -> Chart:
    rows: list[dict[str, Any]] = []
    for at, (row, phase, _, peak_bytes) in enumerate(moments):
        rows.append({"at": at, "MB": peak_bytes / 1e6, "phase": phase, "row": plain(str(row) or "model", 80)})
    seen = [name for name in PHASES if any(row["phase"] == name for row in rows)]
    colour = alt.Color("phase:N", scale=alt.Scale(domain=seen, range=[_PHASE_INKS[name] for name in seen]), legend=None)
    bars = chart_of(rows).mark_rect().encode(
        x=alt.X("at:Q", title="changes from row to row, in order", axis=alt.Axis(grid=False)),
        x2=alt.X2("next:Q"),
        y=alt.Y("MB:Q", title="MB in use, peak of each interval"),
        y2=alt.Y2("zero:Q"),
        color=colour,
        tooltip=[alt.Tooltip("row:N"), alt.Tooltip("phase:N"), alt.Tooltip("MB:Q", format=".1f")],
    ).transform_calculate(next="datum.at + 1", zero="0")  # fmt: skip
    highest = max(rows, key=lambda row: row["MB"])
    about = f"Peak at {highest['row']}, {highest['phase']}: {format_bytes(highest['MB'] * 1e6)}."
    keys = tuple(Key(name, _PHASE_INKS[name]) for name in seen)
    return Chart("Memory over the step", spec_of(alt.layer(bars), TIMELINE_HEIGHT), about, keys)


def _drawn_layers(repeated: Sequence[Result]) -> list[Result]:
    """The rows of repeated layers that a chart has room for: those with the most time, in the model's order."""
    largest = sorted(repeated, key=lambda row: -(row.metrics["share"].value or 0.0))
    cells = accumulate(len(members_of(row)) for row in largest)
    kept = {row.name for row, count in zip(largest, cells, strict=True) if count <= MOST_LAYERS}
    return [row for row in repeated if row.name in kept]


def _layers(tree: StepTree, repeated: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """The time of each layer in each row of repeated layers, against the mean of its row."""
    by_name = {row.name: row for row in tree.rows if row.kind != "layers"}
    short = _short_names([row.name for row in repeated])
    for row in repeated:
        members = members_of(row)
        times = [by_name[member].metrics["total_time"].value or 0.0 for member in members]
        mean = sum(times) / len(times) if times else 0.0
        for number, (member, time_s) in enumerate(zip(members, times, strict=True)):
            if mean:
                yield {
                    "part": plain(short[row.name], 60),
                    "layer": number,
                    "path": plain(member, 80),
                    "ms": 1e3 * time_s,
                    "ratio": time_s / mean,
                }


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name without that of the layer it is part of, where no other is then the same: a telephone is narrow."""
    short = {name: name.rpartition("*.")[2] or name for name in names}
    counts = Counter(short.values())
    return {name: part if counts[part] == 1 else name for name, part in short.items()}


def _farthest_text(rows: Sequence[dict[str, Any]]) -> str:
    row = max(rows, key=lambda row: abs(row["ratio"] - 1))
    return f"{row['path']}, {format_digits(row['ms'])} ms, {row['ratio']:.2f} times the mean of its row"


def _heat_strip(rows: Sequence[dict[str, Any]], left_out: int) -> Chart:
    parts = list(dict.fromkeys(row["part"] for row in rows))
    farthest = max(abs(row["ratio"] - 1) for row in rows) or 1.0
    # The page's colours are CSS variables, between which Vega cannot interpolate: their opacity says how far.
    inks = {"faster": ink("engine-0"), "slower": ink("engine-1")}
    colours = alt.Scale(domain=list(inks), range=list(inks.values()))
    opacities = alt.Scale(domain=[0, farthest], range=[0, 1])
    cells = (
        chart_of(rows)
        .transform_calculate(distance="abs(datum.ratio - 1)", pace="datum.ratio < 1 ? 'faster' : 'slower'")
        .mark_rect(stroke=ink("line"))
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0, grid=False)),
            y=alt.Y("part:N", sort=parts, title=None, axis=alt.Axis(grid=False, labelLimit=240)),
            color=alt.Color("pace:N", scale=colours, legend=None),
            fillOpacity=alt.FillOpacity("distance:Q", scale=opacities, legend=None),
            tooltip=[
                "path:N",
                alt.Tooltip("ms:Q", format=".2f"),
                alt.Tooltip("ratio:Q", title="of the mean", format=".2f"),
            ],
        )
    )
    return Chart(
        "Layers side by side",
        spec_of(alt.layer(cells), 30 * len(parts) + 50),
        "Each layer's time over the mean of its row: the stronger the colour, the farther from it. "
        f"Farthest: {_farthest_text(rows)}."
        + (f" Without {left_out} rows of less time, for which there is no room." if left_out else ""),
        tuple(Key(pace, colour) for pace, colour in inks.items()),
    )
