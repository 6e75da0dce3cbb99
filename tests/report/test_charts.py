"""Every chart against Vega-Lite's schema, which the package itself does not check each time."""

from pathlib import Path

import altair
import pytest
from stopwav.report.charts import chart_svg, latency_charts

from stopwav.record import Record
from stopwav.studies.latency.view import latency_view

DATA = Path(__file__).parent.parent / "data"


@pytest.mark.parametrize("name", ["latency-real", "latency-failures"])
def test_every_chart_is_valid_and_draws(name: str) -> None:
    charts = latency_charts(latency_view(Record.read(DATA / f"{name}.jsonl")))
    assert {"waterfall", "histogram-chunk_lag", "ecdf-chunk_lag"} <= set(charts)
    for chart in charts.values():
        altair.Chart.from_dict(dict(chart.spec), validate=True)
        assert chart.description
        assert "<path" in chart_svg(chart.spec)
