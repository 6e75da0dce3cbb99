"""Every chart against Vega-Lite's schema, which the package itself does not check each time."""

from pathlib import Path

import altair
import pytest
from shown_runs import study_run
from stored_runs import FAILURES, REAL

from stopwav.record import Record
from stopwav.report.chart import chart_svg


@pytest.mark.parametrize("path", [REAL, FAILURES], ids=lambda path: path.stem)
def test_every_chart_is_valid_and_draws(path: Path) -> None:
    charts = study_run(Record.read(path)).charts
    assert {"waterfall", "histogram-chunk_lag", "ecdf-chunk_lag"} <= set(charts)
    for chart in charts.values():
        altair.Chart.from_dict(dict(chart.spec), validate=True)
        assert chart.description
        assert "<path" in chart_svg(chart.spec)
