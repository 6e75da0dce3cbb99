"""The parameters of engines by module, as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from stopwav.record import Result
from stopwav.report.chart import Chart, chart_of, colour, engine_keys, spec_of
from stopwav.report.compare_layout import Layout
from stopwav.report.palette import ink
from stopwav.report.text import plain

# A bar holds its name with room to spare.
ROW_HEIGHT = 26
# Deeper levels have hundreds of modules: a chart shows the largest of each engine, the list below it all.
MOST_BARS = 12
# The longest bar leaves room for the number at its end.
ROOM = 1.3


def modules_chart(layout: Layout) -> Chart | None:
    """The chart; None where no engine tells how many parameters it has."""
    names = layout.titles()
    rows, left_out = [], 0
    for engine, title in zip(layout.engines, names, strict=True):
        modules = list(_modules(engine))
        largest = sorted(modules, key=lambda module: -module[1])[:MOST_BARS]
        left_out += len(modules) - len(largest)
        rows += [
            {
                "engine": title,
                "module": f"{layout.letter(engine.name)} {plain(name, 40)}",
                "parameters": count,
                "told": f"{count:,}",
            }
            for name, count in modules
            if (name, count) in largest
        ]
    if not rows:
        return None
    shown = list(dict.fromkeys(str(row["engine"]) for row in rows))
    told = "; ".join(f"{row['module']} {row['told']}" for row in rows)
    more = f" Not drawn: {left_out} smaller modules." if left_out else ""
    silent = ", ".join(name for name in names if name not in shown)
    missing = f" Not told: {silent}." if silent else ""
    return Chart(
        "Parameters by module", _bars(rows, names, shown), f"{told}.{more}{missing}", engine_keys(names, shown)
    )


def _modules(engine: Result) -> Iterator[tuple[str, int]]:
    """The modules with their parameters; one for all where the engine tells no more."""
    modules: Any = engine.params["modules"]
    yield from ((module["name"], module["parameters"]) for module in modules)
    total = engine.metrics["parameters"].value if engine.metrics else None
    if not modules and total is not None:
        yield "whole model", int(total)


def _bars(rows: list[dict[str, Any]], names: list[str], shown: list[str]) -> dict[str, Any]:
    scale = alt.Scale(domain=[0, ROOM * max(row["parameters"] for row in rows) or 1], nice=False)
    order = [row["module"] for row in rows]
    base = chart_of(rows).encode(
        x=alt.X("parameters:Q", title="parameters", scale=scale, axis=alt.Axis(format="~s", tickCount=6)),
        y=alt.Y("module:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, grid=False)),
    )
    tooltip = [alt.Tooltip("engine:N"), alt.Tooltip("module:N"), alt.Tooltip("told:N", title="parameters")]
    bars = base.mark_bar(height=ROW_HEIGHT // 2).encode(color=colour(names, shown), tooltip=tooltip)
    numbers = base.mark_text(align="left", dx=6, fontSize=11, fill=ink("ink")).encode(text="told:N")
    return spec_of(alt.layer(bars, numbers), ROW_HEIGHT * len(rows) + 20)
