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


def test_stages_that_nobody_feels_are_folded_away() -> None:
    run = study_run(Record.read(REAL))
    highest: dict[str, float] = {}
    for entry in run.view["distributions"]:
        highest[entry["quantity"]] = max(entry["p95_ms"], highest.get(entry["quantity"], 0.0))
    folded = {name.partition("-")[2] for name, chart in run.charts.items() if chart.folded}
    assert folded
    assert folded == {quantity for quantity, ms in highest.items() if ms < 1 and quantity != "chunk_lag"}


def test_the_axis_of_word_latency_is_named_and_its_ticks_reach_every_word() -> None:
    run = study_run(Record.read(REAL))
    latencies = [row["latency_s"] for row in run.view["positions"]["points"]]
    encoding = run.charts["positions"].spec["layer"][0]["encoding"]["y"]
    assert "symlog" in encoding["title"]
    assert encoding["axis"]["values"][0] <= min(latencies)
    assert max(latencies) <= encoding["axis"]["values"][-1]
    assert encoding["scale"]["domain"] == [encoding["axis"]["values"][0], encoding["axis"]["values"][-1]]
