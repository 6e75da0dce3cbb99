"""A quantity over the length of the input: a line per engine, its interval as a band, and the fitted law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from stopwav.report.chart import Chart, chart_of, colour, engine_keys, shape, spec_of
from stopwav.report.compare_layout import Layout
from stopwav.report.palette import ink
from stopwav.report.text import format_interval
from stopwav.stats import Estimate
from stopwav.studies.grid.charts import law_curve

HEIGHT = 320


@dataclass(frozen=True)
class Quantity:
    """What is drawn: its metric, in which unit and by what its stored unit is multiplied, and the most decimals."""

    metric: str
    title: str
    unit: str
    scale: float
    decimals: int
    has_law: bool


LATENCY = Quantity("latency", "Latency", "ms", 1e3, 2, True)
ENERGY = Quantity("energy_per_utterance_gross", "Energy of an utterance, gross,", "J", 1.0, 3, False)


def over_length_chart(layout: Layout, quantity: Quantity) -> Chart | None:
    """The chart; None where fewer than two lengths have a value, which make no line."""
    rows = _rows(layout, quantity)
    known = [row for row in rows if row["value"] is not None]
    lengths = sorted({row["length_s"] for row in known})
    if len(lengths) < 2:
        return None
    names, shown = layout.titles(), list(dict.fromkeys(str(row["engine"]) for row in known))
    laws = _law_rows(layout, quantity.scale) if quantity.has_law else []
    log = alt.Scale(type="log", nice=False, padding=16)
    ticks = alt.Axis(grid=False, format="~g", values=lengths)
    x = alt.X("length_s:Q", scale=log, title="length of the input, s", axis=ticks)
    title = f"{quantity.title.rstrip(',')}, {quantity.unit}"
    y = alt.Y("value:Q", scale=log, title=title, axis=alt.Axis(format="~g", tickCount=6))
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("length_s:Q", title="s of input", format="~g"),
        alt.Tooltip("told:N", title=quantity.unit),
    ]
    base = chart_of([row for row in rows if row["engine"] in shown]).encode(x=x, color=colour(names, shown))
    thin = chart_of(laws).mark_line(strokeWidth=0.75, stroke=ink("muted"))
    layers = [
        *([thin.encode(x=x, y=y, detail="engine:N")] if laws else []),
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape(names, shown), tooltip=tooltip),
        # Last, as the legend of a file takes the strength of its colours from the first; it covers nothing.
        base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", scale=log, title=title), y2="high:Q"),
    ]
    drawn = "bands: 95 % interval; thin lines: the fitted law" if laws else "bands: 95 % interval"
    about = f"Points: measured; {drawn}; both axes logarithmic. {_told(layout, quantity)}"
    spec = spec_of(alt.layer(*layers), HEIGHT)
    return Chart(f"{quantity.title} over the length of the input", spec, about, engine_keys(names, shown))


def _rows(layout: Layout, quantity: Quantity) -> list[dict[str, Any]]:
    """A row per engine and length; a length that was lost has no value, so that no line is drawn across it."""
    rows = []
    for engine, title in zip(layout.engines, layout.titles(), strict=True):
        for frames in layout.frames:
            one = layout.lengths[engine.name, frames].metrics.get(quantity.metric, Estimate(None))
            value, low, high = (_positive(end, quantity.scale) for end in (one.value, one.low, one.high))
            # A band has two ends or none.
            ends = {"low": None if high is None else low, "high": None if low is None else high}
            told = format_interval(one, quantity.scale, quantity.decimals)
            rows.append({"engine": title, "length_s": frames / 100, "value": value, **ends, "told": told})
    return rows


def _positive(value: float | None, scale: float) -> float | None:
    """The value as it is shown; None where a logarithmic axis has no place for it."""
    return scale * value if value is not None and value > 0 else None


def _law_rows(layout: Layout, scale: float) -> list[dict[str, Any]]:
    rows = []
    for law in layout.laws:
        cells: Any = law.params["cells"]
        title = layout.title(str(law.params["of"]))
        curve = law_curve(law, cells[0][0], cells[-1][0])
        rows += [{"engine": title, "length_s": x, "value": scale * time_s} for x, time_s in curve if time_s > 0]
    return rows


def _told(layout: Layout, quantity: Quantity) -> str:
    """The curves in words: what each engine takes for the shortest and for the longest input, and what is missing."""
    told = []
    for engine in layout.engines:
        own = {frames: layout.lengths[engine.name, frames].metrics.get(quantity.metric) for frames in layout.frames}
        known = {frames: one for frames, one in own.items() if one is not None and one.value is not None}
        lost = [f"{frames / 100:g}" for frames in own if frames not in known]
        ends = sorted({min(known), max(known)}) if known else []
        numbers = [format_interval(known[frames], quantity.scale, quantity.decimals) for frames in ends]
        parts = [f"{shown} {quantity.unit} for {at / 100:g} s" for shown, at in zip(numbers, ends, strict=True)]
        more = [f"nothing for {', '.join(lost)} s"] if lost else []
        told.append(f"{layout.letter(engine.name)}: {', '.join([*parts, *more])}.")
    return " ".join(told)
