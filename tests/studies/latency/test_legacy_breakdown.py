"""The legacy breakdown, worked out by hand, and the charts of the stages they are about."""

import pytest
from shown_runs import markdown, page, printed, study_run
from staged_run import staged_run
from stored_runs import REAL, results_of

from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.studies.latency.definitions import LEGACY, shown_sections

# The 95th of 100 chunks, in ms: ALGO 160 + 40; 94 chunks have quick features and 6 slow ones, the same of inference;
# 88 chunks take 21.1, six 48 + 20.1 and six 1 + 110.1 in all, so the P95 of the lag is 111.1, and not 158.1.
ON_PAPER = {
    "algorithmic latency (ALGO)": "200",
    "inference (INF), P95": "110",
    "features (FEAT), P95": "48.0",
    "copy (COPY), P95": "0.10",
    "sum of P95s (upper bound)": "358",
    # (88 · 21.1 + 6 · 68.1 + 6 · 111.1) ms of work for 16 s of audio.
    "real-time factor (RTF)": "0.183",
    "inverse real-time factor (RTFx)": "5.46",
    "worst-case chunk latency, P95": "311",
}


def block(text: str) -> dict[str, str]:
    """The lines under the heading, label by value."""
    under = text.partition(LEGACY)[2].partition("\n–")[0]
    return {label: line.split()[-1] for label in ON_PAPER for line in under.splitlines() if label in line}


def test_the_metrics_are_those_on_paper() -> None:
    metrics = study_run(staged_run()).results[0].metrics
    assert metrics["sum_of_p95s"].value == pytest.approx(0.3581)
    assert metrics["longest_wait_p95"].value == pytest.approx(0.3111)
    assert metrics["chunk_lag_p95"].value == pytest.approx(0.1111)
    assert metrics["rtf"].value == pytest.approx(2.932 / 16)
    assert metrics["longest_wait_p50"].value == pytest.approx(0.2 + 0.0211)


def test_the_lines_stand_in_the_terminal_with_the_values_on_paper() -> None:
    assert block(printed(study_run(staged_run()), every_metric=True)) == ON_PAPER


def test_the_lines_stand_in_markdown_and_page() -> None:
    run = study_run(staged_run())
    rows = [line.strip("| ").split(" | ") for line in markdown(run).splitlines() if " | " in line]
    shown = {row[0]: row[1] for row in rows if len(row) == 2}
    assert {label: shown.get(label) for label in ON_PAPER} == ON_PAPER
    html = page(run)
    for label in ON_PAPER:
        assert f"<bdi>{label}</bdi>" in html


def test_an_engine_that_copies_nothing_has_a_line_of_zero() -> None:
    shown = block(printed(study_run(staged_run(copies=False)), every_metric=True))
    assert shown["copy (COPY), P95"] == "0"
    assert shown["sum of P95s (upper bound)"] == "358"


def test_engines_without_those_stages_have_no_such_lines() -> None:
    results = results_of(REAL)
    moonshine = [result for result in results if result.name == "moonshine"]
    assert LEGACY not in dict(shown_sections(moonshine, page=True))
    assert LEGACY in dict(shown_sections(results, page=True)), "pocketsphinx marks features and inference"


def test_features_and_inference_have_their_charts_where_the_stages_are_marked() -> None:
    charts = study_run(staged_run()).charts
    for stage, title, p50, p95 in (
        ("features", "features (FEAT)", "1.00", "48.0"),
        ("inference", "inference (INF)", "20.0", "110"),
    ):
        chart = charts[f"histogram-{stage}"]
        assert chart.title == title
        assert f"taken-apart: P50 {p50} ms, P95 {p95} ms (100 chunks)" in chart.description
        assert "ms (logarithmic)" in chart_svg(chart.spec)


def test_a_chart_of_a_stage_leaves_out_engines_that_do_not_mark_it() -> None:
    charts = study_run(Record.read(REAL)).charts
    assert [key.label for key in charts["histogram-features"].legend] == ["pocketsphinx"]
    assert [key.label for key in charts["histogram-inference"].legend] == ["pocketsphinx", "moonshine"]


def test_the_page_describes_the_charts_for_those_who_do_not_see_them() -> None:
    html = page(study_run(staged_run()))
    for title in ("features (FEAT)", "inference (INF)"):
        assert f'role="img" aria-label="{title}" aria-describedby=' in html
