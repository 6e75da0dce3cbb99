"""A run and a card in a notebook: what the page shows, escaped, with no script and no request, on both grounds."""

import re
from pathlib import Path

import pytest
from parsed_html import Seen
from stored_runs import DATA, HOSTILE, REAL, renamed

import stopwav
from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.report.chart import COLOURS, FILE_WIDTH
from stopwav.report.document import Detail
from stopwav.studies.study import StudyRun

STUDIES = ["compare-rounds", "grid-emformer", "load-levels", "loss-kinds", "step-profile"]


@pytest.fixture(scope="module")
def html() -> str:
    return Record.read(REAL)._repr_html_()


def check_still(html: str) -> Seen:
    """Nothing in it runs, loads or leads anywhere; all elements are closed."""
    seen = Seen(html)
    assert not {"script", "iframe", "img", "image", "link", "object", "embed", "form"} & {*dict(seen.elements)}
    for _, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "xlink:href", "src", "action"):
            # A warning's mark leads to the warning.
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", re.sub(r">[^<]*<", "><", html))
    return seen


def test_a_run_shows_the_findings_tables_and_charts_of_its_page(html: str) -> None:
    seen = check_still(html)
    run = StudyRun(Record.read(REAL))
    for finding in run.document(Detail(page=True)).findings:
        assert finding.split(";")[0] in seen.text.replace("\u00a0", " ")
    assert seen.count("svg", **{"class": "marks"}) == len(run.charts)
    labels = [attributes["aria-label"] for attributes in seen.of("div") if attributes.get("role") == "img"]
    # Those of stages that nobody feels are folded away, after the others.
    ordered = sorted(run.charts.values(), key=lambda chart: chart.folded)
    assert labels == [chart.title for chart in ordered]
    assert ordered[-1].folded
    metrics = {attributes["data-metric"] for attributes in seen.of("button") if "data-metric" in attributes}
    assert {"word_latency_p50", "rtf", "wer"} <= metrics


def test_what_needs_a_script_is_left_out(html: str) -> None:
    for absent in ("moment by moment", "Click a heading", "data-timeline", "<select"):
        assert absent not in html


def test_both_grounds_are_there_and_the_style_is_for_this_output_alone(html: str) -> None:
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    light, dark = COLOURS["ink"]
    assert f"--ink: light-dark({light}, {dark});" in style[1]
    assert not re.search(r"url\(|@import", style[1])
    # One rule, in which all others are nested: nothing else of the notebook changes.
    assert style[1].strip().startswith(".stopwav {")
    depth = 0
    for position, char in enumerate(style[1].strip()):
        depth += {"{": 1, "}": -1}.get(char, 0)
        assert depth > 0 or position < len(".stopwav {") or position == len(style[1].strip()) - 1
    # Charts are drawn in the palette, not in the colours of either ground.
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert "var(--engine-0)" in drawn
    assert COLOURS["engine-0"][0] not in drawn


def test_the_same_run_is_the_same_output_and_two_runs_share_no_id(html: str) -> None:
    assert Record.read(REAL)._repr_html_() == html
    other = Record.read(DATA / "latency-columns.jsonl")._repr_html_()
    ids = [set(re.findall(r'\bid="([^"]+)"', one)) for one in (html, other)]
    assert all(ids)
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("stem", STUDIES)
def test_a_run_of_every_study_shows_itself(stem: str) -> None:
    record = Record.read(DATA / f"{stem}.jsonl")
    seen = check_still(record._repr_html_())
    assert len(seen.of("table")) >= 1
    assert f"{stem}.jsonl" in repr(record)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name])
def test_no_name_is_more_than_text(name: str, tmp_path: Path) -> None:
    record = Record.read(renamed(REAL, tmp_path / "hostile.jsonl", name))
    check_still(record._repr_html_())


def test_a_card_shows_its_verdicts_and_the_front() -> None:
    card = stopwav.card(Record.read(DATA / "compare-rounds.jsonl"))
    html = card._repr_html_()
    seen = check_still(html)
    for part in ("Verdicts", "Expected before the run", "Pareto front", "faster 0.502×"):
        assert part in seen.text
    assert seen.count("svg", **{"class": "marks"}) == 1
    # It is shown with its run, and is no other value for it.
    assert card == stopwav.card(Record.read(DATA / "compare-rounds.jsonl"))
    assert "run=" not in repr(card)


def test_a_chart_is_an_altair_chart_that_draws() -> None:
    chart = Record.read(REAL).chart("waterfall")
    fields = chart.to_dict()
    assert fields["title"] == "Why a word takes so long"
    assert fields["width"] == FILE_WIDTH
    # Outside our page nobody knows its colours by name.
    assert "var(--" not in str(fields)
    import vl_convert

    assert "<svg" in vl_convert.vegalite_to_svg(fields)


def test_a_wrong_chart_lists_the_charts() -> None:
    with pytest.raises(StopwavError, match=r"no chart 'waterfal': there are waterfall, positions, histogram-chunk_lag"):
        Record.read(REAL).chart("waterfal")


def test_an_edited_run_says_so(tmp_path: Path) -> None:
    path = tmp_path / "edited.jsonl"
    path.write_text(REAL.read_text().replace('"samples"', '"sampels"').replace('"audio_s":', '"audio_s":-'))
    record = Record.read(path)
    for shown in (record._repr_html_, record.frame, lambda: record.chart("waterfall")):
        with pytest.raises(StopwavError):
            shown()
