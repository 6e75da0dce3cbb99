"""Markdown: what GitHub's rules make of it is exactly the tables and the text that were meant."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from shown_runs import markdown, study_run
from stored_runs import FAILURES, HOSTILE, REAL, changed, found_in

from stopwav.errors import Caution
from stopwav.record import Record
from stopwav.report.markdown import escape
from stopwav.report.text import plain

PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


class Seen(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name != "style"]

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(markdown: str) -> Seen:
    return Seen(PARSER.render(markdown))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_text_is_shown_as_it_is(hostile: str) -> None:
    shown = seen(f"x {escape(hostile)} x")
    assert shown.tags == ["p"]
    assert shown.text.split() == f"x {plain(hostile)} x".split()


@given(st.text(max_size=80))
def test_any_text_is_shown_as_it_is_in_a_line_a_list_and_a_cell(text: str) -> None:
    for before, after, tags in (("x", "", ["p"]), ("- x", "", ["ul", "li"])):
        shown = seen(f"{before}{escape(text)}{after}")
        assert shown.tags == tags
        assert " ".join(shown.text.split()) == " ".join(f"x{plain(text)}".split())
    shown = seen(f"| a | b |\n| --- | --- |\n| x{escape(text)} | y |")
    assert shown.tags.count("td") == 2
    assert shown.tags.count("tr") == 2


@given(st.text(alphabet="-+=#>*_`~|<&@!.)1: \\[]()abw/", max_size=12))
def test_no_text_begins_a_block(text: str) -> None:
    shown = seen(f"- {escape(text)} x")
    assert [tag for tag in shown.tags if tag not in ("ul", "li", "p")] == []


@pytest.mark.parametrize("every_metric", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_report_keeps_its_shape_whatever_the_names_are(hostile: str, every_metric: bool) -> None:
    record, results = found_in(FAILURES)
    plainly = seen(markdown(study_run(record), every_metric=every_metric)).tags
    named = [
        replace(results[0], name=hostile, warnings=(Caution("engine", hostile), *results[0].warnings)),
        replace(results[1], warnings=(Caution("engine", hostile), *results[1].warnings)),
        replace(results[2], warnings=(Caution("engine", hostile), *results[2].warnings)),
    ]
    text = markdown(study_run(record, named), every_metric=every_metric)
    text.encode("utf-8")
    tags = seen(text).tags
    # One item of the list of doubts more.
    assert sorted(tags) == sorted([*plainly, "li", "strong"])
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x09\x0b-\x1f]", text)


def test_nobody_is_called_and_no_issue_is_named() -> None:
    text = escape("@everyone #12 a@b")
    assert text == "&#64;<!-- -->everyone &#35;<!-- -->12 a&#64;<!-- -->b"
    assert seen(text).text.strip() == "@everyone #12 a@b"


def test_the_report_says_what_was_found_and_where() -> None:
    record, results = found_in(REAL)
    run = study_run(record)
    text = markdown(run)
    assert text.startswith("### stopwav: Latency of pocketsphinx and moonshine\n")
    assert re.search(r"^\| word latency \(UPL\), P50 \| [\d.]+ ≈\[[\d.]+–[\d.]+\] \| ", text, re.MULTILINE)
    assert "- pocketsphinx: keeps up; word latency" in text
    assert f"fingerprint {record.header.machine['fingerprint']}" in text
    assert record.header.started in text
    every = markdown(run, every_metric=True)
    for name in results[0].metrics:
        assert f"| {name} |" in every


def test_a_run_of_which_nothing_was_measured_has_no_table(tmp_path: Path) -> None:
    def keep_the_third(lines: list[dict[str, Any]]) -> None:
        lines[0]["spec"]["engines"] = lines[0]["spec"]["engines"][2:]
        (name,) = lines[0]["spec"]["engines"]
        lines[1:] = [line for line in lines[1:] if name in line.get("key", [name])]

    text = markdown(study_run(Record.read(changed(FAILURES, tmp_path / "third.jsonl", keep_the_third))))
    assert "model.bin: no such file" in text
    assert "| " not in text
