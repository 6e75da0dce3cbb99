"""The lines of older reports, worked out by hand, and the charts of the stages they are about."""

import io

import pytest
from rich.console import Console
from staged_run import staged_run
from stopwav.report.charts import chart_svg, latency_charts
from stopwav.report.latency_table import OLDER, lines_of, print_latency
from stored_runs import REAL, found_in

from stopwav.record import Record
from stopwav.report.markdown import markdown_report
from stopwav.report.page import Section, render_page
from stopwav.studies.latency.view import latency_view
from stopwav.studies.study import results

# The 95th of 100 chunks, in ms: ALGO 160 + 40; 94 chunks have quick features and 6 slow ones, the same of inference;
# 88 chunks take 21.1, six 48 + 20.1 and six 1 + 110.1 in all, so the P95 of the lag is 111.1, and not 158.1.
ON_PAPER = {
    "ALGO: chunk + look-ahead": "200",
    "P95 INF: inference": "110",
    "P95 FEAT: features": "48.0",
    "P95 COPY: to the device (MEM)": "0.10",
    "total: upper bound, no queue": "358",
    # (88 · 21.1 + 6 · 68.1 + 6 · 111.1) ms of work for 16 s of audio.
    "real-time factor, audio once": "0.183",
    "ours: ALGO + chunk lag, P95": "311",
}


def printed(record: Record) -> str:
    out = io.StringIO()
    print_latency(results(record), Console(file=out, width=80))
    return out.getvalue()


def block(text: str) -> dict[str, str]:
    """The lines under the heading, label by value."""
    under = text.partition(OLDER)[2].partition("\n–")[0]
    return {label: line.split()[-1] for label in ON_PAPER for line in under.splitlines() if label in line}


def test_the_metrics_are_those_on_paper() -> None:
    found = results(staged_run())[0].metrics
    assert found["sum_of_p95s"].value == pytest.approx(0.3581)
    assert found["longest_wait_p95"].value == pytest.approx(0.3111)
    assert found["chunk_lag_p95"].value == pytest.approx(0.1111)
    assert found["rtf"].value == pytest.approx(2.932 / 16)
    assert found["longest_wait_p50"].value == pytest.approx(0.2 + 0.0211)


def test_the_lines_stand_in_the_terminal_with_the_values_on_paper() -> None:
    assert block(printed(staged_run())) == ON_PAPER


def test_the_lines_stand_in_markdown_and_page() -> None:
    record = staged_run()
    found = results(record)
    rows = [line.strip("| ").split(" | ") for line in markdown_report(record, found).splitlines() if " | " in line]
    told = {row[0]: row[1] for row in rows if len(row) == 2}
    assert {label: told.get(label) for label in ON_PAPER} == ON_PAPER
    html = render_page([Section(record, found, latency_view(record))])
    for label in ON_PAPER:
        assert f'<th scope="row">{label}</th>' in html


def test_an_engine_that_copies_nothing_has_a_line_of_zero() -> None:
    told = block(printed(staged_run(copies=False)))
    assert told["P95 COPY: to the device (MEM)"] == "0"
    assert told["total: upper bound, no queue"] == "358"


def test_engines_without_those_stages_have_no_such_lines() -> None:
    _, found = found_in(REAL)
    moonshine = [result for result in found if result.name == "moonshine"]
    assert OLDER not in dict(lines_of(moonshine))
    assert OLDER in dict(lines_of(found)), "pocketsphinx marks features and inference"


def test_features_and_inference_have_their_charts_where_the_stages_are_marked() -> None:
    charts = latency_charts(latency_view(staged_run()))
    for stage, title, p95 in (("features", "features (FEAT)", "48 ms"), ("inference", "inference (INF)", "110 ms")):
        chart = charts[f"histogram-{stage}"]
        assert chart.title == title
        assert (
            f"taken-apart: P50 {'1' if stage == 'features' else '20'} ms, P95 {p95} (100 chunks)" in chart.description
        )
        assert "ms (logarithmic)" in chart_svg(chart.spec)


def test_a_chart_of_a_stage_leaves_out_engines_that_do_not_mark_it() -> None:
    charts = latency_charts(latency_view(Record.read(REAL)))
    assert [key.label for key in charts["histogram-features"].legend] == ["pocketsphinx"]
    assert [key.label for key in charts["histogram-inference"].legend] == ["pocketsphinx", "moonshine"]


def test_the_page_describes_the_charts_for_those_who_do_not_see_them() -> None:
    record = staged_run()
    html = render_page([Section(record, results(record), latency_view(record))])
    for title in ("features (FEAT)", "inference (INF)"):
        assert f'role="img" aria-label="{title}" aria-describedby=' in html
