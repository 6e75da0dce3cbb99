"""The page and its charts, without a browser: what stands in it, what it is made of, and what it never holds."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from shown_runs import page, study_run
from synthetic import write_run

from stopwav.record import Record, Result
from stopwav.report.chart import COLOURS, chart_png, chart_svg
from stopwav.report.document import Document
from stopwav.report.page import render_page
from stopwav.studies.latency.view import MOST_POINTS
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StudyRun:
    path = write_run(tmp_path_factory.mktemp("run") / "latency-made.jsonl", message="load average 9: wait")
    return study_run(Record.read(path))


@pytest.fixture(scope="module")
def html(run: StudyRun) -> str:
    return page(run)


def without_scripts(html: str) -> str:
    return re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)


def test_the_head_says_what_was_measured_where_when_and_with_which_versions(html: str) -> None:
    text = without_scripts(html)
    for part in ("6 utterances of corpus made", "Made-up Processor", "2 January 2026, 03:04 UTC", "numpy 2.0"):
        assert part in text
    assert "swift: keeps up" in text
    assert "load average 9: wait" in text


def test_the_page_names_no_place_on_the_web(html: str) -> None:
    # Vega's own script names namespaces and its licence; outside of it there is no address at all.
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", without_scripts(html)))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:img|iframe|source|video|audio|object|embed)\b", without_scripts(html))
    assert not re.search(r"<script[^>]*\ssrc=", html)
    assert re.findall(r"<link[^>]*href=\"(.{5})", html) == ["data:"]


def test_the_policy_allows_exactly_the_scripts_of_the_page(html: str) -> None:
    import hashlib

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(scripts) == 3
    allowed = re.search(r"script-src ([^;]*)", policy[1].replace("&#39;", "'"))
    assert allowed is not None
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]


def test_the_raw_run_is_in_it_byte_for_byte(run: StudyRun, html: str) -> None:
    packed = re.search(r'id="s0-raw">([^<]*)<', html)
    assert packed is not None
    assert gzip.decompress(base64.b64decode(packed[1])) == run.record.path.read_bytes()


def test_the_same_run_makes_the_same_page(run: StudyRun, html: str) -> None:
    assert page(study_run(run.record, run.results)) == html


def test_several_runs_make_a_section_each_below_the_comparison(run: StudyRun) -> None:
    html = render_page([page_section(run), page_section(run)], Document("Side by side"))
    assert html.index(">Side by side</h1>") < html.index('id="s0-run"') < html.index('id="s1-run"')
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert html.count("vegaEmbed=") == 1


def test_a_run_whose_file_is_gone_says_so(run: StudyRun, tmp_path: Path) -> None:
    moved = Record(tmp_path / "gone.jsonl", run.record.header, run.record.pieces, complete=True)
    assert "no longer where it was" in page(study_run(moved, run.results))


def test_an_engine_that_failed_has_dashes_and_a_reason(run: StudyRun) -> None:
    html = page(study_run(run.record, [*run.results, Result("broken", {}, "crashed")]))
    assert "not measured: crashed" in html
    assert "broken: crashed" in html


def test_percentiles_and_means_of_charts_are_those_of_the_tables(run: StudyRun) -> None:
    by_name = {result.name: result.metrics for result in run.results}
    for entry in run.view["distributions"]:
        for p in (50, 95):
            value = by_name[entry["engine"]][f"{entry['quantity']}_p{p}"].value
            assert entry[f"p{p}_ms"] == pytest.approx(None if value is None else 1e3 * value, rel=1e-3, abs=1e-9)
        assert sum(entry["shares"]) == pytest.approx(1, abs=1e-3)
    for row in run.view["waterfall"]:
        value = by_name[row["engine"]][f"waterfall_{row['part']}"].value
        assert row["mean_ms"] == pytest.approx(1e3 * (value or 0.0), rel=1e-3, abs=1e-6)


def test_a_percentile_that_the_sample_cannot_carry_is_not_drawn(tmp_path: Path) -> None:
    few = study_run(Record.read(write_run(tmp_path / "few.jsonl", engines=["swift"], utterances=1, chunks=20)))
    assert {entry["p95_ms"] for entry in few.view["distributions"]} == {None}
    assert "P95 –, too few chunks" in few.charts["histogram-chunk_lag"].description


def test_charts_hold_aggregates_and_a_bounded_sample(tmp_path: Path) -> None:
    large = study_run(Record.read(write_run(tmp_path / "many.jsonl", utterances=150, chunks=40)))
    positions = large.view["positions"]
    assert positions["total"] > MOST_POINTS
    assert len(positions["points"]) <= MOST_POINTS + len(large.view["engines"])
    assert f"word of {positions['total']} recognised" in large.charts["positions"].description
    assert all(len(json.dumps(chart.spec)) < 150_000 for chart in large.charts.values())


def test_audio_that_cannot_be_read_leaves_a_note_and_readable_audio_an_outline(run: StudyRun) -> None:
    from stopwav.speech.corpus import bundled_corpus

    assert "no waveform" in run.view["timelines"][0]["envelope_note"]
    header = run.record.header.model_copy(deep=True)
    header.corpus["utterances"][0]["path"] = str(bundled_corpus().utterances[0].path)
    read = study_run(Record(run.record.path, header, run.record.pieces, complete=True))
    envelope = read.view["timelines"][0]["envelope"]
    assert max(envelope) == 63
    assert 100 < len(envelope) <= 400


def test_stages_that_engines_name_themselves_have_charts_with_names_fit_for_files(tmp_path: Path) -> None:
    for index, stage in enumerate(("inference/search", "../../</script>", "chunk lag")):
        record = Record.read(write_run(tmp_path / f"{index}.jsonl", engines=["swift"], utterances=2, stage=stage))
        charts = study_run(record).charts
        assert any(stage in chart.title for chart in charts.values())
        assert all(re.fullmatch(r"[\w-]+", name) for name in charts)


def test_one_definition_gives_the_page_and_the_files(run: StudyRun) -> None:
    for name, chart in run.charts.items():
        assert "var(--" in json.dumps(chart.spec)
        if name in ("waterfall", "ecdf-chunk_lag"):
            svg = chart_svg(chart.spec)
            assert svg.startswith("<svg")
            assert "var(--" not in svg
            assert COLOURS["part-emission" if name == "waterfall" else "engine-0"][0] in svg
    assert chart_png(chart.spec).startswith(b"\x89PNG")


def test_colours_of_text_have_contrast_on_both_grounds() -> None:
    for name in ("ink", "muted", "accent"):
        for ground in ("paper", "card"):
            for side in (0, 1):
                assert contrast(COLOURS[name][side], COLOURS[ground][side]) >= 4.5
    for index in range(8):
        for side in (0, 1):
            assert contrast(COLOURS[f"engine-{index}"][side], COLOURS["card"][side]) >= 4.5
    for side in (0, 1):
        assert contrast(COLOURS["caution"][side], COLOURS["caution-wash"][side]) >= 4.5


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts: list[Any] = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
