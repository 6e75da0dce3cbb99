"""Charts: one definition each, for the page and for files. Altair is imported when the first chart is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stopwav.record import Result
from stopwav.report.charts.chart import Chart, Key, chart_png, chart_script, chart_svg

__all__ = ["Chart", "Key", "chart_png", "chart_script", "chart_svg", "charts_of", "latency_charts"]


def latency_charts(view: Mapping[str, Any]) -> dict[str, Chart]:
    """The charts of a latency run by name, from its view, in the order in which a page shows them."""
    return charts_of("latency", view, ())


def charts_of(study: str, view: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Chart]:
    """The charts of a run of that study by name, from its view and its results."""
    from altair.utils.schemapi import debug_mode

    from stopwav.report.presentation import presentation_of

    # Altair checks every part of every chart against its schema, which takes longer than all the rest; the tests do it.
    with debug_mode(False):
        return presentation_of(study).charts(view, results)
