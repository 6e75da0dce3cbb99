"""Engines with random weights: times are shown, and what rests on their texts is `untrained`."""

import re

import pytest
from shown_runs import markdown, page, printed, study_run
from staged_run import staged_run

from stopwav.record import Record
from stopwav.report.csv_table import csv_table
from stopwav.report.page import render_page
from stopwav.studies.latency.document import latency_finding
from stopwav.studies.side_by_side import page_section, side_by_side
from stopwav.studies.study import results


@pytest.fixture(scope="module")
def record() -> Record:
    return staged_run(untrained=True)


def test_what_rests_on_texts_has_no_value_and_the_note(record: Record) -> None:
    metrics, trained = results(record)[0].metrics, results(staged_run())[0].metrics
    assert metrics.keys() == trained.keys()
    without = {name for name, estimate in metrics.items() if estimate.note == "untrained"}
    assert without == {name for name, estimate in metrics.items() if estimate.code == "untrained"}
    assert all(metrics[name].to_json()["value"] is None for name in without)
    assert {
        "wer",
        "upwr",
        "words_recognised",
        "word_latency_p50",
        "waterfall_inference",
        "share_queue",
        "al",
    } <= without
    for name in metrics.keys() - without:
        assert metrics[name] == trained[name], name
    assert {"rtf", "chunk_lag_p95", "inference_p95", "final_latency_p50", "keeps_up", "load_time"} & without == set()


def test_a_run_from_before_the_word_is_of_a_trained_engine() -> None:
    result = results(staged_run())[0]
    assert "untrained" not in result.params["engine"]  # type: ignore[operator]
    assert result.metrics["wer"].value == 0


def test_the_sentence_blames_no_missing_words(record: Record) -> None:
    finding = latency_finding(results(record)[0])
    assert finding.startswith("taken-apart: whether it keeps up is undecided: RTF has no interval")  # of 1 utterance
    assert finding.endswith("); untrained: no words to time")


def test_the_terminal_says_it_once_where_the_errors_would_stand(record: Record) -> None:
    text = printed(study_run(record))
    assert re.search(r"word error rate \(WER\), % +untrained", text)
    assert text.count("untrained") == 2, "and once in the sentence"
    assert "word latency" not in text
    assert "Why it takes so long" not in text
    assert "finalization latency, P50" in text


def test_beside_a_trained_engine_each_place_says_it(record: Record) -> None:
    text = printed(study_run(record, [*results(record), *results(staged_run("trained"))]), every_metric=True)
    assert re.search(r"word error rate \(WER\), % +untrained +0", text)
    assert re.search(r"= word latency \(UPL\), mean +untrained +-?\d", text)


def test_markdown_page_comparison_and_csv_say_it(record: Record) -> None:
    run = study_run(record)
    text = markdown(run)
    assert "| word error rate (WER), % | untrained |" in text
    assert "untrained: word error rate" not in text
    html = page(run)
    assert re.search(r'data-metric="wer"[^>]*>untrained', html)
    assert "Why a word takes so long, and where" not in html
    several = render_page([page_section(run), page_section(run)], side_by_side([run, run]))
    assert re.search(r'data-metric="wer"[^>]*>untrained', several[: several.index('id="s0-run"')])
    assert "wer,,,,0,,untrained" in csv_table([(record, run.results, ())])


def test_no_chart_is_drawn_of_words_that_came_by_chance(record: Record) -> None:
    assert {"waterfall", "positions"} <= study_run(staged_run()).charts.keys()
    assert not {"waterfall", "positions"} & study_run(record).charts.keys()
