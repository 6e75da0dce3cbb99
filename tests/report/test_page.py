"""The page and its charts, without a browser: what stands in it, what it is made of, and what it never holds."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from stopwav.report.charts import chart_png, chart_svg, latency_charts
from synthetic import write_run

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report.page import Section, render_page
from stopwav.report.palette import COLOURS
from stopwav.studies.latency.view import MOST_POINTS, latency_view
from stopwav.studies.study import results


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Section:
    run = write_run(tmp_path_factory.mktemp("run") / "latency-made.jsonl", message="load average 9: wait")
    record = Record.read(run)
    return Section(record, results(record), latency_view(record))


@pytest.fixture(scope="module")
def html(section: Section) -> str:
    return render_page([section])


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


def test_the_raw_run_is_in_it_byte_for_byte(section: Section, html: str) -> None:
    packed = re.search(r'id="s0-raw">([^<]*)<', html)
    assert packed is not None
    assert gzip.decompress(base64.b64decode(packed[1])) == section.record.path.read_bytes()


def test_the_same_run_makes_the_same_page(section: Section, html: str) -> None:
    again = Section(section.record, section.results, latency_view(section.record))
    assert render_page([again]) == html


def test_several_runs_make_a_section_each_below_the_comparison(section: Section) -> None:
    html = render_page([section, section], comparison_html="<h1>Side by side</h1>")
    assert html.index("<h1>Side by side</h1>") < html.index('id="s0-run"') < html.index('id="s1-run"')
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert html.count("vegaEmbed=") == 1


def test_a_run_whose_file_is_gone_says_so(section: Section, tmp_path: Path) -> None:
    moved = Record(tmp_path / "gone.jsonl", section.record.header, section.record.pieces, complete=True)
    assert "no longer where it was" in render_page([Section(moved, section.results, section.view)])


@pytest.mark.parametrize("study", ["no-such-study", "../section", "facts"])
def test_a_study_that_is_not_known_is_an_error(section: Section, study: str) -> None:
    header = section.record.header.model_copy(update={"study": study})
    record = Record(section.record.path, header, [], complete=True)
    with pytest.raises(StopwavError, match=f"a run of '{study}', which this version of stopwav does not know"):
        render_page([Section(record, section.results, {})])


def test_an_engine_that_failed_has_dashes_and_a_reason(section: Section) -> None:
    failed = Result("broken", {}, "crashed")
    html = render_page([Section(section.record, [*section.results, failed], section.view)])
    assert "not measured: crashed" in html
    assert "broken: crashed" in html


def test_percentiles_and_means_of_charts_are_those_of_the_tables(section: Section) -> None:
    by_name = {result.name: result.metrics for result in section.results}
    for entry in section.view["distributions"]:
        for p in (50, 95):
            value = by_name[entry["engine"]][f"{entry['quantity']}_p{p}"].value
            assert entry[f"p{p}_ms"] == pytest.approx(None if value is None else 1e3 * value, rel=1e-3, abs=1e-9)
        assert sum(entry["shares"]) == pytest.approx(1, abs=1e-3)
    for row in section.view["waterfall"]:
        value = by_name[row["engine"]][f"waterfall_{row['part']}"].value
        assert row["mean_ms"] == pytest.approx(1e3 * (value or 0.0), rel=1e-3, abs=1e-6)


def test_a_percentile_that_the_sample_cannot_carry_is_not_drawn(tmp_path: Path) -> None:
    record = Record.read(write_run(tmp_path / "few.jsonl", engines=["swift"], utterances=1, chunks=20))
    view = latency_view(record)
    assert {entry["p95_ms"] for entry in view["distributions"]} == {None}
    assert "P95 –, too few chunks" in latency_charts(view)["histogram-chunk_lag"].description


def test_charts_hold_aggregates_and_a_bounded_sample(tmp_path: Path) -> None:
    record = Record.read(write_run(tmp_path / "many.jsonl", utterances=150, chunks=40))
    view = latency_view(record)
    assert view["positions"]["total"] > MOST_POINTS
    assert len(view["positions"]["points"]) <= MOST_POINTS + len(view["engines"])
    chart = latency_charts(view)["positions"]
    assert f"word of {view['positions']['total']} recognised" in chart.description
    assert all(len(json.dumps(one.spec)) < 150_000 for one in latency_charts(view).values())


def test_audio_that_cannot_be_read_leaves_a_note_and_readable_audio_an_outline(section: Section) -> None:
    from stopwav.speech.corpus import bundled_corpus

    assert "no waveform" in section.view["timelines"][0]["envelope_note"]
    header = section.record.header.model_copy(deep=True)
    header.corpus["utterances"][0]["path"] = str(bundled_corpus().utterances[0].path)
    view = latency_view(Record(section.record.path, header, section.record.pieces, complete=True))
    envelope = view["timelines"][0]["envelope"]
    assert max(envelope) == 63
    assert 100 < len(envelope) <= 400


def test_stages_that_engines_name_themselves_have_charts_with_names_fit_for_files(tmp_path: Path) -> None:
    for index, stage in enumerate(("inference/search", "../../</script>", "chunk lag")):
        record = Record.read(write_run(tmp_path / f"{index}.jsonl", engines=["swift"], utterances=2, stage=stage))
        charts = latency_charts(latency_view(record))
        assert any(stage in chart.title for chart in charts.values())
        assert all(re.fullmatch(r"[\w-]+", name) for name in charts)


def test_one_definition_gives_the_page_and_the_files(section: Section) -> None:
    for name, chart in latency_charts(section.view).items():
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
