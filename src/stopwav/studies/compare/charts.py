"""The charts of a comparison: accuracy or size against pace, latency and energy over length, parameters by module."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Result
from stopwav.report.chart import Chart
from stopwav.report.compare_layout import arrange
from stopwav.studies.compare.card import Card
from stopwav.studies.compare.modules_chart import modules_chart
from stopwav.studies.compare.over_length_chart import ENERGY, LATENCY, over_length_chart
from stopwav.studies.compare.pareto_chart import pareto_chart


def compare_charts(results: Sequence[Result], card: Card) -> dict[str, Chart]:
    """The charts by name, in the order in which a page shows them; those that would show nothing are left out."""
    layout = arrange(results)
    charts = {
        "pareto": pareto_chart(layout, card),
        "latency": over_length_chart(layout, LATENCY),
        "energy": over_length_chart(layout, ENERGY),
        "parameters": modules_chart(layout),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}
