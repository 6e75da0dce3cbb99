"""Engines with random weights: times are shown, and what rests on their texts is `untrained`."""

import io
import re

import pytest
from rich.console import Console
from staged_run import staged_run
from stopwav.report.charts import latency_charts
from stopwav.report.comparison import comparison_html
from stopwav.report.findings import latency_finding
from stopwav.report.latency_table import print_latency

from stopwav.record import Record
from stopwav.report.csv_table import csv_table
from stopwav.report.markdown import markdown_report
from stopwav.report.page import Section, render_page
from stopwav.studies.latency.view import latency_view
from stopwav.studies.study import results


@pytest.fixture(scope="module")
def record() -> Record:
    return staged_run(untrained=True)


def test_what_rests_on_texts_has_no_value_and_the_note(record: Record) -> None:
    found, trained = results(record)[0].metrics, results(staged_run())[0].metrics
    assert found.keys() == trained.keys()
    without = {name for name, one in found.items() if one.note == "untrained"}
    assert all(found[name].to_json()["value"] is None for name in without)
    assert {
        "wer",
        "upwr",
        "words_recognised",
        "word_latency_p50",
        "waterfall_inference",
        "share_queue",
        "al",
    } <= without
    for name in found.keys() - without:
        assert found[name] == trained[name], name
    assert {"rtf", "chunk_lag_p95", "inference_p95", "final_latency_p50", "keeps_up", "load_time"} & without == set()


def test_a_run_from_before_the_word_is_of_a_trained_engine() -> None:
    found = results(staged_run())[0]
    assert "untrained" not in found.params["engine"]  # type: ignore[operator]
    assert found.metrics["wer"].value == 0


def test_the_sentence_blames_no_missing_words(record: Record) -> None:
    assert latency_finding(results(record)[0]) == "taken-apart: keeps up; untrained: no words to time"


def test_the_terminal_says_it_once_where_the_errors_would_stand(record: Record) -> None:
    out = io.StringIO()
    print_latency(results(record), Console(file=out, width=80))
    text = out.getvalue()
    assert re.search(r"word error rate, percent +untrained", text)
    assert text.count("untrained") == 2, "and once in the sentence"
    assert "a word appears" not in text
    assert "Why it takes so long" not in text
    assert "final text, from audio end, P50" in text


def test_beside_a_trained_engine_each_place_says_it(record: Record) -> None:
    out = io.StringIO()
    print_latency([*results(record), *results(staged_run("trained"))], Console(file=out, width=80))
    assert re.search(r"word error rate, percent +untrained +0", out.getvalue())
    assert re.search(r"= a word appears, mean +untrained +-?\d", out.getvalue())


def test_markdown_page_comparison_and_csv_say_it(record: Record) -> None:
    found = results(record)
    text = markdown_report(record, found)
    assert "| word error rate, percent | untrained |" in text
    assert "untrained: word error rate" not in text
    html = render_page([Section(record, found, latency_view(record))])
    assert 'data-metric="wer"' in html
    assert re.search(r'data-metric="wer"[^>]*>untrained', html)
    assert "Why a word takes so long, and where" not in html
    assert ">untrained</td>" in comparison_html([(record, found), (record, found)])
    assert "wer,,,,0,,untrained" in csv_table([(record, found)])


def test_no_chart_is_drawn_of_words_that_came_by_chance(record: Record) -> None:
    assert {"waterfall", "positions"} <= latency_charts(latency_view(staged_run())).keys()
    assert not {"waterfall", "positions"} & latency_charts(latency_view(record)).keys()
