"""The charts of a comparison: errors or size against RTFx, latency and energy over length, parameters by module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from stopwav.record import Result
from stopwav.report.axis import TICKS, log_scale, log_ticks
from stopwav.report.chart import VALUES, Chart, chart_of, colour, engine_keys, ink, shape, spec_of
from stopwav.report.text import format_interval, plain
from stopwav.stats import Estimate
from stopwav.studies.compare.comparison import Comparison, comparison_of, has_value, pareto_places, pareto_text
from stopwav.studies.compare.definitions import DEFINITIONS
from stopwav.studies.error_rates import CER, WER
from stopwav.studies.growth import growth_curve
from stopwav.studies.study import StudyRun

PARETO_HEIGHT = 340
CURVE_HEIGHT = 320
# The ring of a member of the Pareto front is clear of its mark.
MARK_SIZE, RING_SIZE = 110, 520
# A bar has room for its name.
ROW_HEIGHT = 26
# Deeper levels have hundreds of modules: a chart shows the largest of each engine, the list below it all.
MOST_BARS = 12
# The longest bar leaves room for the number at its end.
ROOM = 1.3


@dataclass(frozen=True)
class Curve:
    """A metric over length: its title and unit, the factor from its stored unit, and the most decimals."""

    metric: str
    title: str
    unit: str
    scale: float
    decimals: int
    fitted: bool


LATENCY = Curve("latency", "Latency", "ms", 1e3, 2, fitted=True)
ENERGY = Curve("energy_per_utterance_gross", "Energy per utterance, gross,", "J", 1.0, 3, fitted=False)


def compare_charts(run: StudyRun) -> dict[str, Chart]:
    """Return the charts by name, in the order in which a page shows them; those without data are left out."""
    comparison = comparison_of(run)
    charts = {
        "pareto": _pareto_chart(comparison),
        "latency": _length_chart(comparison, LATENCY),
        "energy": _length_chart(comparison, ENERGY),
        "parameters": _modules_chart(comparison),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _titles(comparison: Comparison) -> list[str]:
    return [plain(comparison.title(engine.name)) for engine in comparison.engines]


def _pareto_chart(comparison: Comparison) -> Chart | None:
    """Word errors, or else parameters, against RTFx; None where fewer than two engines have a place."""
    pareto = comparison.card.pareto
    rate = pareto.axes[0].upper() if pareto.axes[0] in (WER, CER) else ""
    by_errors = bool(rate)
    rows, texts = [], []
    for engine, cost, rtfx in pareto_places(comparison):
        place = {**_ends("rtfx", rtfx, 1.0), **_ends("cost", cost, 100.0 if by_errors else 1.0)}
        letter = comparison.letter(engine.name)
        title = plain(comparison.title(engine.name))
        rows.append({"engine": title, "letter": letter, "member": engine.name in pareto.members, **place})
        text = f"{rate} {format_interval(cost, 100)} %" if by_errors else f"{cost.value:,.0f} parameters"
        texts.append(f"{letter}: {text}, RTFx {format_interval(rtfx)}.")
    if len(rows) < 2:
        return None
    names, shown = _titles(comparison), [str(row["engine"]) for row in rows]
    description = (
        "Better is to the lower right; RTFx is on a logarithmic axis; whiskers: 95 % interval; ringed: on the Pareto "
        f"front. {' '.join(texts)} {plain(pareto_text(comparison), 1000)}."
    )
    spec = _places(rows, names, shown, rate)
    title = (
        f"{DEFINITIONS.short_title(pareto.axes[0]).capitalize()} against RTFx"
        if by_errors
        else "Parameters against RTFx"
    )
    return Chart(title, spec, description, engine_keys(names, shown))


def _ends(axis: str, estimate: Estimate, scale: float) -> dict[str, float]:
    """The value and the ends of its interval, which are the value itself where it has none."""
    value = scale * (estimate.value or 0.0)
    low, high = (value if end is None else scale * end for end in (estimate.low, estimate.high))
    return {axis: value, f"{axis}_low": low, f"{axis}_high": high}


def _places(rows: list[dict[str, Any]], names: list[str], shown: list[str], rate: str) -> dict[str, Any]:
    by_errors = bool(rate)
    speeds = log_ticks(row[end] for row in rows for end in ("rtfx_low", "rtfx_high"))
    log = log_scale(speeds)
    # Zero errors have a place on an axis from zero; sizes differ by orders of magnitude.
    if by_errors:
        scale, cost_title, cost_axis = alt.Scale(zero=True), f"{rate}, %", alt.Axis(format=TICKS)
    else:
        sizes = log_ticks(row[end] for row in rows for end in ("cost_low", "cost_high"))
        scale, cost_title, cost_axis = log_scale(sizes), "parameters", alt.Axis(format="~s", values=sizes)
    rtfx_title = "RTFx (times faster than real time)"
    base = chart_of(rows).encode(
        x=alt.X("rtfx:Q", scale=log, title=rtfx_title, axis=alt.Axis(grid=False, format=TICKS, values=speeds)),
        y=alt.Y("cost:Q", scale=scale, title=cost_title, axis=cost_axis),
    )
    own = base.encode(color=colour(names, shown))
    across = own.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("rtfx_low:Q", scale=log, title=rtfx_title), x2=alt.X2("rtfx_high:Q")
    )
    upward = own.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("cost_low:Q", scale=scale, title=cost_title), y2=alt.Y2("cost_high:Q")
    )
    rings = base.transform_filter("datum.member").mark_point(
        filled=False, shape="circle", size=RING_SIZE, strokeWidth=1.5, stroke=ink("ink"), opacity=1
    )
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("rtfx:Q", title="RTFx", format=VALUES),
        alt.Tooltip("cost:Q", title=cost_title, format=VALUES if by_errors else ",d"),
    ]
    marks = own.mark_point(filled=True, size=MARK_SIZE, opacity=1).encode(shape=shape(names, shown), tooltip=tooltip)
    letters = base.mark_text(align="left", dx=14, dy=-12, fontSize=12, fill=ink("ink")).encode(
        text=alt.Text("letter:N")
    )
    return spec_of(alt.layer(across, upward, rings, marks, letters), PARETO_HEIGHT)


def _length_chart(comparison: Comparison, curve: Curve) -> Chart | None:
    """A line per engine, its interval as a band, and its fit; None where fewer than two lengths have a value."""
    rows = _curve_rows(comparison, curve)
    known = [row for row in rows if row["value"] is not None]
    lengths = sorted({row["length_s"] for row in known})
    if len(lengths) < 2:
        return None
    names, shown = _titles(comparison), list(dict.fromkeys(str(row["engine"]) for row in known))
    fits = _fit_rows(comparison, curve.scale) if curve.fitted else []
    log = alt.Scale(type="log", nice=False, padding=16)
    ticks = alt.Axis(grid=False, format=TICKS, values=lengths)
    x = alt.X("length_s:Q", scale=log, title="length of the input, s", axis=ticks)
    title = f"{curve.title.rstrip(',')}, {curve.unit}"
    amounts = log_ticks(row[end] for row in (*known, *fits) for end in ("value", "low", "high") if row.get(end))
    y = alt.Y("value:Q", scale=log_scale(amounts), title=title, axis=alt.Axis(format=TICKS, values=amounts))
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("length_s:Q", title="s of input", format=TICKS),
        alt.Tooltip("text:N", title=curve.unit),
    ]
    base = chart_of([row for row in rows if row["engine"] in shown]).encode(x=x, color=colour(names, shown))
    thin = chart_of(fits).mark_line(strokeWidth=0.75, stroke=ink("muted"))
    layers = [
        *([thin.encode(x=x, y=y, detail=alt.Detail("engine:N"))] if fits else []),
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape(names, shown), tooltip=tooltip),
        # Last, as the legend of a file takes the strength of its colours from the first; it covers nothing.
        base.mark_area(opacity=0.2).encode(
            y=alt.Y("low:Q", scale=log_scale(amounts), title=title), y2=alt.Y2("high:Q")
        ),
    ]
    drawn = "bands: 95 % interval; thin lines: scaling fit" if fits else "bands: 95 % interval"
    description = f"Points: measured; {drawn}; both axes logarithmic. {_curve_text(comparison, curve)}"
    spec = spec_of(alt.layer(*layers), CURVE_HEIGHT)
    return Chart(f"{curve.title} over the length of the input", spec, description, engine_keys(names, shown))


def _curve_rows(comparison: Comparison, curve: Curve) -> list[dict[str, Any]]:
    """A row per engine and length; a length that failed has no value, so that no line is drawn across it."""
    rows = []
    for engine, title in zip(comparison.engines, _titles(comparison), strict=True):
        for frames in comparison.frames:
            estimate = comparison.lengths[engine.name, frames].metrics.get(curve.metric, Estimate(None))
            value, low, high = (_positive(end, curve.scale) for end in (estimate.value, estimate.low, estimate.high))
            # A band has two ends or none.
            ends = {"low": None if high is None else low, "high": None if low is None else high}
            text = format_interval(estimate, curve.scale, curve.decimals)
            rows.append({"engine": title, "length_s": frames / 100, "value": value, **ends, "text": text})
    return rows


def _positive(value: float | None, scale: float) -> float | None:
    """The value as it is shown; None where a logarithmic axis has no place for it."""
    return scale * value if value is not None and value > 0 else None


def _fit_rows(comparison: Comparison, scale: float) -> list[dict[str, Any]]:
    rows = []
    for fit in comparison.fits:
        title = plain(comparison.title(str(fit.params["of"])))
        points = [(length_s, time_s) for length_s, time_s in growth_curve(fit) if time_s > 0]
        rows += [{"engine": title, "length_s": length_s, "value": scale * time_s} for length_s, time_s in points]
    return rows


def _curve_text(comparison: Comparison, curve: Curve) -> str:
    """The curves in words: the values for the shortest and for the longest input, and which are missing."""
    texts = []
    for engine in comparison.engines:
        results = {frames: comparison.lengths[engine.name, frames] for frames in comparison.frames}
        measured = {frames: result for frames, result in results.items() if has_value(result, curve.metric)}
        known = {frames: result.metrics[curve.metric] for frames, result in measured.items()}
        lost = [f"{frames / 100:g}" for frames in results if frames not in known]
        ends = sorted({min(known), max(known)}) if known else []
        parts = [
            f"{format_interval(known[frames], curve.scale, curve.decimals)} {curve.unit} for {frames / 100:g} s"
            for frames in ends
        ]
        missing = [f"nothing for {', '.join(lost)} s"] if lost else []
        texts.append(f"{comparison.letter(engine.name)}: {', '.join([*parts, *missing])}.")
    return " ".join(texts)


def _modules_chart(comparison: Comparison) -> Chart | None:
    """The parameters of engines by module, as bars; None where no engine reports a parameter count."""
    names = _titles(comparison)
    rows, left_out = [], 0
    for engine, title in zip(comparison.engines, names, strict=True):
        modules = list(_modules(engine))
        largest = sorted(modules, key=lambda module: -module[1])[:MOST_BARS]
        left_out += len(modules) - len(largest)
        rows += [
            {
                "engine": title,
                "module": f"{comparison.letter(engine.name)} {plain(name, 40)}",
                "parameters": count,
                "text": f"{count:,}",
            }
            for name, count in modules
            if (name, count) in largest
        ]
    if not rows:
        return None
    shown = list(dict.fromkeys(str(row["engine"]) for row in rows))
    listed = "; ".join(f"{row['module']} {row['text']}" for row in rows)
    smaller = f" Not drawn: {left_out} smaller modules." if left_out else ""
    unknown = ", ".join(name for name in names if name not in shown)
    unknown = f" Unknown: {unknown} (no parameter count reported)." if unknown else ""
    spec = _bars(rows, names, shown)
    return Chart("Parameters by module", spec, f"{listed}.{smaller}{unknown}", engine_keys(names, shown))


def _modules(engine: Result) -> Iterator[tuple[str, int]]:
    """The modules with their parameters; one for all where the engine reports no more."""
    modules: Any = engine.params["modules"]
    yield from ((module["name"], module["parameters"]) for module in modules)
    total = engine.metrics["parameters"].value if engine.metrics else None
    if not modules and total is not None:
        yield "whole model", int(total)


def _bars(rows: Sequence[dict[str, Any]], names: list[str], shown: list[str]) -> dict[str, Any]:
    scale = alt.Scale(domain=[0, ROOM * max(row["parameters"] for row in rows) or 1], nice=False)
    order = [row["module"] for row in rows]
    base = chart_of(rows).encode(
        x=alt.X("parameters:Q", title="parameters", scale=scale, axis=alt.Axis(format="~s", tickCount=6)),
        y=alt.Y("module:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, grid=False)),
    )
    tooltip = [alt.Tooltip("engine:N"), alt.Tooltip("module:N"), alt.Tooltip("text:N", title="parameters")]
    bars = base.mark_bar(height=ROW_HEIGHT // 2).encode(color=colour(names, shown), tooltip=tooltip)
    numbers = base.mark_text(align="left", dx=6, fontSize=11, fill=ink("ink")).encode(text=alt.Text("text:N"))
    return spec_of(alt.layer(bars, numbers), ROW_HEIGHT * len(rows) + 20)
