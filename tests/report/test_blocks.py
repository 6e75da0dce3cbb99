"""Each renderer on a document made by hand: every kind of block, at every width, with hostile text in every place."""

import base64
import gzip
import io
import json
import re
import unicodedata
from dataclasses import replace
from html import unescape

import pytest
from hand_made import ESTIMATES, chart, engines_table, every_block, interval, modules_table
from markdown_it import MarkdownIt
from parsed_html import Seen
from rich.cells import cell_len
from rich.console import Console
from stored_runs import HOSTILE

from stopwav.report.document import (
    Cell,
    Column,
    Document,
    Figures,
    Lines,
    Missing,
    Note,
    Row,
    Section,
    Table,
    footnotes,
    shown,
    simple_table,
)
from stopwav.report.markdown import render_markdown
from stopwav.report.page import PageSection, draw_blocks, render_page
from stopwav.report.terminal import bar, print_document
from stopwav.report.text import plain

PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
CHARTS = {name: chart(name) for name in ("time-b", "below-b", "time-a", "x-alone", "unused")}


def printed(document: Document, width: int = 80, **options: bool) -> str:
    out = io.StringIO()
    print_document(document, Console(file=out, width=width), **options)
    return out.getvalue()


def of(*blocks: object) -> Document:
    return Document("Title", blocks)  # type: ignore[arg-type]


def seen(document: Document) -> Seen:
    return Seen(draw_blocks(document, CHARTS, "s0-").html)


def test_a_medium_shows_its_own_blocks_and_sections_are_for_the_page() -> None:
    note, hidden = Note("a"), Note("b", media=("page",))
    section = Section("s", (hidden, Section("t", (note,))))
    assert shown((section, note), "terminal") == [note, note]
    assert shown((section, note), "markdown") == [note, note]
    assert shown((section, note), "page") == [section, note]


def test_figures_are_named_by_pattern_in_the_order_of_the_charts() -> None:
    figures = Figures((("time-*", "below-*"), ("*-alone",), ("exact",), ("absent",)))
    names = ["exact", "time-b", "time-a", "below-b", "x-alone", "time", "alone"]
    assert figures.names(names) == [("time-b", "below-b"), ("time-a",), ("x-alone",), ("exact",)]
    # What stands on both sides of the star is not counted twice.
    assert Figures((("ab*ba",),)).names(["aba", "abba", "ab-ba"]) == [("abba",), ("ab-ba",)]


def test_a_warning_stands_once_with_those_it_is_about() -> None:
    everyone, some = footnotes(every_block().warned)
    assert (everyone.number, everyone.everyone, everyone.text) == (1, True, "load swift")
    assert (some.number, some.everyone, some.text) == (2, False, "swift-a: lost swift")


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 200])
def test_no_number_is_cut_at_any_width(width: int) -> None:
    text = printed(of(engines_table(), modules_table()), width)
    words = text.split()
    for estimate in ESTIMATES:
        assert interval(estimate)[1] in words
    assert all(f"{10 * index}" in words for index in range(4))
    if width >= 60:
        assert max(map(cell_len, text.splitlines())) <= width


def test_many_columns_lose_their_intervals_before_they_are_split() -> None:
    wide, short, split = (printed(of(engines_table()), width) for width in (200, 80, 50))
    assert all(interval(estimate)[0] in wide for estimate in ESTIMATES)
    assert "[" not in short
    assert short.count("real-time factor") == 1
    # Each part of a split table has the rows' names, and each column stands in one part.
    assert split.count("real-time factor") == 2
    assert [split.count(f"swift-{index}") for index in range(5)] == [1] * 5


def test_few_columns_are_split_to_keep_their_intervals() -> None:
    cells = [Cell(text, text.partition(" ")[0]) for text, _ in map(interval, ESTIMATES[3:])]
    table = Table((Column("", "left"), Column("a"), Column("b")), (Row((Cell("time"), *cells)),))
    text = printed(of(table), 50)
    assert all(cell.text in text for cell in cells)
    assert text.count("time") == 2


def test_columns_fold_shorten_and_give_way() -> None:
    wide, narrow = (printed(of(modules_table()), width) for width in (200, 65))
    assert "layer.3.self_attention.projection" in wide
    assert "multiplies layer by a matrix of 3 rows and writes the product back" in wide
    assert "3.000 GB" in wide
    assert "3.000 GB" not in narrow
    assert "only where" not in narrow
    assert "…" in narrow
    assert "layer.3.se" in narrow
    # Folded between words, and all of them there.
    folded = " ".join(line[45:] for line in narrow.splitlines())
    for word in ["multiplies", "layer", "by", "a", "matrix", "of", "rows", "and", "writes", "the", "product", "back"]:
        assert word in folded


def test_groups_have_headings_and_rows_stand_in_from_them() -> None:
    lines = printed(of(engines_table()), 200).splitlines()
    starts = {line.strip().split("  ")[0]: len(line) - len(line.lstrip()) for line in lines if line.strip()}
    assert starts["speed swift"] < starts["real-time factor"] < starts["of which waiting"]
    assert starts["errors"] == starts["speed swift"]


def test_bars_end_where_their_share_does() -> None:
    assert [bar(share).rstrip() for share in (0, 0.5, 1, 2, -1)] == ["", "████", "████████", "████████", ""]
    assert bar(1 / 64).rstrip() == "▏"
    assert all(len(bar(share / 100)) == 8 for share in range(101))


def test_the_terminal_has_every_block_in_order_and_the_findings_first() -> None:
    text = printed(every_block(), 120)
    order = (
        "Finding swift", "Loud swift", "Engines swift", "a mark means swift", "List swift", "first swift",
        "–  no meter: swift", "Within swift", "Quiet swift", "! busy-machine: load swift",
        "! stream-error: swift-a: lost swift", "more: --all",
    )  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    for absent in ("Section swift", "Folded", "Title", "device", "load_time"):
        assert absent not in text
    every = printed(every_block(), 120, every_metric=True)
    assert "load_time" in every
    assert "more: --all" not in every
    assert "0.5" in every


def test_markdown_has_every_block_in_order_and_the_findings_first() -> None:
    text = render_markdown(every_block())
    assert text.startswith("### stopwav: Title swift\n\n- Finding swift\n\nLoud swift\n")
    page = Seen(PARSER.render(text))
    assert page.count("table") == 2
    # All columns, the wide one too, with all intervals; a heading row fills its cells.
    assert page.count("td") == 5 * 6 + 4 * 5
    assert all(interval(estimate)[0] in text for estimate in ESTIMATES)
    assert "**speed swift**" in text
    assert "| &nbsp;&nbsp;of which waiting |" in text
    assert "<sub>a mark means swift</sub>" in text
    assert page.count("details") == 1
    for part in ("first swift", "no meter: swift", "Within swift", "⚠ **busy-machine** load swift"):
        assert part in text
    assert "rtf" not in text
    assert "| rtf | 0.50 [0.40–0.60] |" in render_markdown(every_block(), every_metric=True)


def test_html_has_every_block() -> None:
    drawn = draw_blocks(every_block(), CHARTS, "s0-")
    page = Seen(drawn.html)
    # A table for each group of the first; the second is one.
    assert page.count("table") == 3
    assert page.count("table", **{"class": "sortable"}) == 1
    assert page.count("th", scope="row") == 3 + 4
    assert page.count("details") == 1
    assert page.count("figure") == 3
    assert page.count("select") == 1
    assert page.count("option", selected="") == 0
    assert [attributes.get("value") for tag, attributes in page.elements if "selected" in attributes] == ["1"]
    for part in (
        "Section swift",
        "List swift",
        "first swift",
        "– no meter: swift",
        "Within swift",
        "device",
        "crashed",
    ):
        assert part in page.text
    assert page.count("a", href="#s0-3") == 1
    # Each chart once under an id of its own, without the one that no block names.
    assert [drawn.charts[f"s0-chart-{index}"].title for index in range(4)] == ["time-b", "below-b", "time-a", "x-alone"]
    assert len(drawn.charts) == 4
    (blob,) = drawn.blobs.values()
    streams = json.loads(gzip.decompress(base64.b64decode(blob)))
    assert [stream["text"] for stream in streams] == ["swift", "other"]


def test_a_number_on_the_page_shows_where_it_comes_from() -> None:
    document = every_block()
    # Its column is one of the results that a warning is about; the other warning casts no doubt on this metric.
    document = replace(document, warned=tuple(replace(row, name="swift-0") for row in document.warned[:1]))
    elements = [attributes for _, attributes in seen(document).elements]
    buttons = [attributes for attributes in elements if "data-metric" in attributes]
    assert len(buttons) == 3 * 5
    assert [attributes["data-cautions"] for attributes in buttons[:2]] == ["load swift", ""]
    assert [attributes["href"] for attributes in elements if attributes.get("class") == "mark"] == ["#s0-note-1"] * 3
    first = buttons[0]
    assert (first["data-metric"], first["data-of"], first["data-n"]) == ("rtf", "swift-0", "40")
    assert first["data-interval"] == "1.25 s; 95 % interval 1.00 to 1.50 s"


def test_rows_before_the_first_heading_are_a_group_of_their_own() -> None:
    table = Table(
        (Column("metric", "left"), Column("value")),
        (Row((Cell("first"), Cell("1"))), Row((Cell("group"),), heading=True), Row((Cell("second"), Cell("2")))),
    )
    page = seen(of(table))
    assert page.count("table") == 2
    assert page.count("th", scope="row") == 2
    assert "first" in printed(of(table))


def test_nothing_is_an_empty_document() -> None:
    empty = of(Missing(()), Table((Column("a"),), ()), Lines("none", ()), Figures((("x",),)), simple_table(("a",), ()))
    assert "none" in printed(empty)
    assert render_markdown(empty).startswith("### stopwav: Title\n")
    assert "<figure" not in draw_blocks(empty, {}, "s0-").html
    assert printed(of()) == ""


def acting(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("width", [60, 200])
def test_hostile_text_is_text_in_the_terminal(hostile: str, width: int) -> None:
    text = printed(every_block(hostile), width, every_metric=True)
    assert not acting(text)
    assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_text_in_markdown(hostile: str) -> None:
    usual, text = (render_markdown(every_block(name), every_metric=True) for name in ("swift", hostile))
    assert not acting(text)
    assert [line[:1] for line in text.splitlines()] == [line[:1] for line in usual.splitlines()]
    before, after = (Seen(PARSER.render(document)) for document in (usual, text))
    assert [tag for tag, _ in after.elements] == [tag for tag, _ in before.elements]
    assert len(text) < 100_000


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_text_on_the_page(hostile: str) -> None:
    usual, page = seen(every_block()), seen(every_block(hostile))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in usual.elements]
    assert not acting(page.text)
    for (_, before), (_, after) in zip(usual.elements, page.elements, strict=True):
        assert set(before) == set(after)
        assert not acting("".join(value or "" for value in after.values()).replace("\n", ""))
    assert len(page.text) < 100_000


def test_a_page_of_a_document_without_a_run_or_charts() -> None:
    html = render_page([PageSection(of(engines_table()), {}, lambda metric: None)])
    assert html.startswith("<!doctype html>")
    assert "Download" not in html
    assert re.search(r"<h1[^>]*>Title", html)
    assert unescape(html).count(plain("swift-0")) > 0


@pytest.mark.parametrize("text", ["__bold__", "_em_", "www.x.example", "WWW.X", "w" * 100_000])
def test_a_cell_that_looks_like_a_number_does_nothing(text: str) -> None:
    page = Seen(PARSER.render(markdown := render_markdown(of(simple_table(("a",), ((text,),))))))
    assert {tag for tag, _ in page.elements} == {"h3", "table", "thead", "tbody", "tr", "th", "td"}
    assert "www." not in markdown.lower()
    assert len(markdown) < 1000
