"""Charts: one definition each, for the page and for files. Altair is imported when the first chart is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stopwav.report.charts.chart import Chart, Key, chart_png, chart_script, chart_svg

__all__ = ["Chart", "Key", "chart_png", "chart_script", "chart_svg", "latency_charts"]


def latency_charts(view: Mapping[str, Any]) -> dict[str, Chart]:
    """The charts of a latency run by name, from its view, in the order in which a page shows them."""
    from altair.utils.schemapi import debug_mode

    from stopwav.report.charts import latency

    # Altair checks every part of every chart against its schema, which takes longer than all the rest; the tests do it.
    with debug_mode(False):
        return latency.latency_charts(view)
