"""Charts: one definition each, for the page and for files. Altair is imported when the first chart is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stopwav.record import Result
from stopwav.report.charts.chart import Chart, Key, chart_png, chart_script, chart_svg

__all__ = ["Chart", "Key", "chart_png", "chart_script", "chart_svg", "charts_of", "latency_charts"]


def latency_charts(view: Mapping[str, Any]) -> dict[str, Chart]:
    """The charts of a latency run by name, from its view, in the order in which a page shows them."""
    from altair.utils.schemapi import debug_mode

    from stopwav.report.charts import latency

    # Altair checks every part of every chart against its schema, which takes longer than all the rest; the tests do it.
    with debug_mode(False):
        return latency.latency_charts(view)


def charts_of(study: str, view: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Chart]:
    """The charts of a run of that study by name, from its view and its results; none for a study that has no charts."""
    if study == "latency":
        return latency_charts(view)
    if study not in ("grid", "loss", "compare", "step"):
        return {}
    from altair.utils.schemapi import debug_mode

    from stopwav.report.charts import compare, grid, loss, step

    with debug_mode(False):
        if study == "step":
            return step.step_charts(view, results)
        if study == "compare":
            return compare.compare_charts(results, view["card"])
        return grid.grid_charts(results) if study == "grid" else loss.loss_charts(results)
