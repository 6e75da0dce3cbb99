"""Word errors, or else parameters, against pace: who is not shown to be beaten."""

from __future__ import annotations

from typing import Any

import altair as alt

from stopwav.report.chart import Chart, chart_of, colour, engine_keys, shape, spec_of
from stopwav.report.compare_layout import Layout, pareto_text
from stopwav.report.palette import ink
from stopwav.report.text import format_interval
from stopwav.stats import Estimate
from stopwav.studies.compare.card import Card

HEIGHT = 340
# The ring of a member stands clear of its mark.
MARK_SIZE, RING_SIZE = 110, 520


def pareto_chart(layout: Layout, card: Card) -> Chart | None:
    """The chart; None where fewer than two engines have a place on both axes."""
    by_errors = card.pareto.axes[0] == "wer"
    rows, told = [], []
    for engine, title in zip(layout.engines, layout.titles(), strict=True):
        pace, cost = (engine.metrics.get(name, Estimate(None)) for name in ("rtfx", card.pareto.axes[0]))
        if pace.value is None or cost.value is None:
            continue
        place = {**_ends("pace", pace, 1.0), **_ends("cost", cost, 100.0 if by_errors else 1.0)}
        is_member = engine.name in card.pareto.members
        letter = layout.letter(engine.name)
        rows.append({"engine": title, "letter": letter, "member": is_member, **place})
        price = f"{format_interval(cost, 100)} % of words wrong" if by_errors else f"{cost.value:,.0f} parameters"
        told.append(f"{letter}: {price}, RTFx {format_interval(pace)}.")
    if len(rows) < 2:
        return None
    names, shown = layout.titles(), [str(row["engine"]) for row in rows]
    about = (
        "Better lies to the lower right; pace is on a logarithmic axis; whiskers: 95 % interval; ringed: not shown to "
        f"be beaten. {' '.join(told)} {pareto_text(layout, card)}."
    )
    spec = _places(rows, names, shown, by_errors=by_errors)
    title = "Word errors against pace" if by_errors else "Parameters against pace"
    return Chart(title, spec, about, engine_keys(names, shown))


def _ends(axis: str, one: Estimate, scale: float) -> dict[str, float]:
    """The value and the ends of its interval, which are the value itself where it has none."""
    value = scale * (one.value or 0.0)
    low, high = (value if end is None else scale * end for end in (one.low, one.high))
    return {axis: value, f"{axis}_low": low, f"{axis}_high": high}


def _places(rows: list[dict[str, Any]], names: list[str], shown: list[str], *, by_errors: bool) -> dict[str, Any]:
    log = alt.Scale(type="log", nice=False, padding=28)
    # No errors at all have a place on an axis from zero; sizes differ by orders of magnitude.
    scale, price = (alt.Scale(zero=True, nice=True), "word errors, %") if by_errors else (log, "parameters")
    format_ = "~g" if by_errors else "~s"
    titles = {"pace": "times faster than real time (RTFx)", "cost": price}
    axes = {"pace": alt.Axis(grid=False, format="~g", tickCount=6), "cost": alt.Axis(format=format_, tickCount=6)}
    base = chart_of(rows).encode(
        x=alt.X("pace:Q", scale=log, title=titles["pace"], axis=axes["pace"]),
        y=alt.Y("cost:Q", scale=scale, title=titles["cost"], axis=axes["cost"]),
    )
    own = base.encode(color=colour(names, shown))
    across = own.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("pace_low:Q", scale=log, title=titles["pace"]), x2="pace_high:Q"
    )
    upward = own.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("cost_low:Q", scale=scale, title=titles["cost"]), y2="cost_high:Q"
    )
    rings = base.transform_filter("datum.member").mark_point(
        filled=False, shape="circle", size=RING_SIZE, strokeWidth=1.5, stroke=ink("ink"), opacity=1
    )
    tooltip = [
        alt.Tooltip("engine:N"),
        alt.Tooltip("pace:Q", title="RTFx", format=".3~g"),
        alt.Tooltip("cost:Q", title=price, format=".3~g" if by_errors else ",d"),
    ]
    marks = own.mark_point(filled=True, size=MARK_SIZE, opacity=1).encode(shape=shape(names, shown), tooltip=tooltip)
    letters = base.mark_text(align="left", dx=14, dy=-12, fontSize=12, fill=ink("ink")).encode(text="letter:N")
    return spec_of(alt.layer(across, upward, rings, marks, letters), HEIGHT)
