"""The recognised texts of runs in every medium: whole, with their errors, and harmless."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from markdown_it import MarkdownIt
from parsed_html import Seen
from shown_runs import page, study_run
from stored_runs import DATA, FAILURES, HOSTILE, REAL, changed

from stopwav.record import Record
from stopwav.report.text import plain
from stopwav.studies.recognised_text import Attempt, recognised_texts

SPOKEN = "Rain is expected in the north tomorrow."
HEARD = "praying is expected in the norris tomorrow"
COMPARE = DATA / "compare-rounds.jsonl"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_equal_texts_are_one_and_others_are_counted() -> None:
    one, two = ("u1", "the cat sat"), ("u0", None)
    attempts = [
        *(Attempt(*one, text) for text in ("the cat", "a cat sat", "the cat")),
        Attempt(*two, "hello"),
        Attempt(*one, None, "timeout: too slow"),
    ]
    texts = recognised_texts("engine", attempts, untrained=False)
    assert [(text.utterance, text.text, text.times, text.attempts) for text in texts] == [
        ("u0", "hello", 1, 1),
        ("u1", "the cat", 2, 4),
        ("u1", "a cat sat", 1, 4),
        ("u1", None, 1, 4),
    ]
    none, missing, other, failed = (text.to_json() for text in texts)
    assert (missing["deletions"], missing["words"], missing["character_errors"], missing["characters"]) == (1, 3, 4, 11)
    # "the" is three characters, "a" is one: one is substituted and two deleted.
    assert (other["substitutions"], other["insertions"], other["character_errors"]) == (1, 0, 3)
    assert (none["reference"], none["words"], none["characters"]) == (None, None, None)
    assert (failed["text"], failed["words"], failed["failure"]) == (None, None, "timeout: too slow")
    assert all(text.errors is None for text in recognised_texts("engine", attempts, untrained=True))


def test_they_are_printed_after_the_tables_only_when_asked_for() -> None:
    assert HEARD not in command("report", REAL).stdout
    text = " ".join(command("report", REAL, "--print-texts").stdout.split())
    assert text.index("word error rate (WER)") < text.index("Recognised texts: pocketsphinx")
    assert f"08-rms reference {SPOKEN} recognised {HEARD} errors 2 of 7 words (2 substituted)" in text
    assert "Recognised texts: moonshine" in text


def test_json_has_a_list_per_engine() -> None:
    assert "texts" not in json.loads(command("report", REAL, "--json").stdout)["results"][0]
    results = json.loads(command("report", REAL, "--json", "--print-texts").stdout)["results"]
    assert [len(result["texts"]) for result in results] == [4, 4]
    (text,) = (text for text in results[0]["texts"] if text["utterance"] == "08-rms")
    assert text == {
        "utterance": "08-rms",
        "reference": SPOKEN,
        "text": HEARD,
        "times": 2,
        "attempts": 2,
        "substitutions": 2,
        "deletions": 0,
        "insertions": 0,
        "words": 7,
        # rain – praying, north – norris.
        "character_errors": 6,
        "characters": 38,
        "failure": "",
    }
    for result in results:
        errors = sum(t["substitutions"] + t["deletions"] + t["insertions"] for t in result["texts"])
        words = sum(t["words"] for t in result["texts"])
        characters = [sum(t[name] for t in result["texts"]) for name in ("character_errors", "characters")]
        assert result["metrics"]["wer"]["value"] == pytest.approx(errors / words)
        assert result["metrics"]["cer"]["value"] == pytest.approx(characters[0] / characters[1])


def test_csv_is_one_table_of_texts() -> None:
    rows = rows_of(command("report", REAL, FAILURES, "--csv", "--print-texts").stdout)
    assert len(rows) == 2 * 4 + 3 * 4
    (row,) = (row for row in rows if (row["name"], row["utterance"]) == ("pocketsphinx", "08-rms"))
    assert (row["reference"], row["text"], row["substitutions"], row["words"]) == (SPOKEN, HEARD, "2", "7")
    lost = [row for row in rows if row["name"] == "flaky.py:Never"]
    assert all((row["text"], row["words"]) == ("", "") for row in lost)
    assert "model.bin: no such file" in lost[0]["failure"]


def test_markdown_and_page_have_a_table() -> None:
    markdown = command("report", REAL, "--markdown", "--print-texts").stdout
    assert f"| 08-rms | {SPOKEN} | {HEARD} | 2 of 7 words (2 substituted), 6 of 38 characters |" in markdown
    html = page(study_run(Record.read(REAL)))
    begin = html.index("<h4>Recognised texts: pocketsphinx")
    assert HEARD in Seen(html[begin : html.index("<h4>Recognised texts: moonshine")]).text


def test_compare_has_texts_and_character_errors() -> None:
    done = command("report", COMPARE, "--json", "--print-texts")
    results = json.loads(done.stdout)["results"]
    assert [("texts" in result) for result in results] == [result["params"]["kind"] == "engine" for result in results]
    engine = results[0]
    assert sum(text["times"] for text in engine["texts"]) == engine["params"]["samples"] == 6
    assert engine["metrics"]["cer"]["value"] == 1  # it writes nothing
    text = command("report", COMPARE, "--print-texts").stdout
    assert "– (no text)" in text
    assert "CER, %" in text


def test_a_study_without_texts_says_so() -> None:
    grid = DATA / "grid-emformer.jsonl"
    assert "No texts: a run of this study holds none." in command("report", grid, "--print-texts").stdout
    done = command("report", grid, "--print-texts", "--csv")
    assert done.code == 2
    assert "a run of 'grid' holds no recognised texts" in done.stderr
    assert "texts" not in json.loads(command("report", grid, "--print-texts", "--json").stdout)["results"][0]


# Shorter than there, and still longer than what other cells are cut at.
LONG = ["w" * 5000 if len(text) > 5000 else text for text in HOSTILE]
TEXTS = [*LONG, "=1+1", "\t=1", 'say "hi", he\nsaid', "سلام دنیا", "مى\u200cخواهم"]


def hostile_run(folder: Path) -> Path:
    """A run of an utterance per text, which is its transcript and what is recognised."""

    def change(lines: list[dict[str, Any]]) -> None:
        header = lines[0]
        stream = next(line for line in lines if line.get("key", [""])[0] == "stream")
        header["spec"]["engines"], engine = ["pocketsphinx"], stream["key"][2]
        utterance = {**header["corpus"]["utterances"][0], "words": []}
        header["corpus"]["utterances"] = [{**utterance, "id": f"u{n:02d}", "text": t} for n, t in enumerate(TEXTS)]
        pieces = []
        for number, text in enumerate(TEXTS):
            chunks = [{**chunk, "text": []} for chunk in stream["data"]["trace"]["chunks"]]
            chunks[-1]["text"] = [text]
            trace = {**stream["data"]["trace"], "chunks": chunks}
            pieces.append({**stream, "key": ["stream", 0, engine, f"u{number:02d}"], "data": {"trace": trace}})
        lines[:] = [header, *pieces]

    return changed(REAL, folder / "hostile.jsonl", change)


def test_hostile_texts_come_back_and_do_nothing(tmp_path: Path) -> None:
    path = hostile_run(tmp_path)
    rows = rows_of(command("report", path, "--csv", "--print-texts").stdout)
    assert len(rows) == len(TEXTS)
    for row, text in zip(rows, TEXTS, strict=True):
        for cell in (row["reference"], row["text"]):
            assert not cell.lstrip().startswith(("=", "+", "-", "@"))
            assert "\x1b" not in cell
            if not {"\x1b", "\ud800"} & set(text):
                assert cell.removeprefix("'") == text
    (result,) = json.loads(command("report", path, "--json", "--print-texts").stdout)["results"]
    assert [text["text"] for text in result["texts"]] == TEXTS
    printed = command("report", path, "--print-texts").stdout
    assert not {"\x1b", "\u202e", "\u200c"} & set(printed)
    assert printed.count("w") > 2 * 5000


def test_hostile_texts_are_text_in_markdown_and_on_the_page(tmp_path: Path) -> None:
    path = hostile_run(tmp_path)
    markdown = command("report", path, "--markdown", "--print-texts").stdout
    begin = markdown.index("**Recognised texts: pocketsphinx**")
    table = Seen(MarkdownIt("commonmark").enable("table").render(markdown[begin : markdown.index("\n- ⚠", begin)]))
    assert (table.count("tr"), table.count("td")) == (1 + len(TEXTS), 4 * len(TEXTS))
    assert {name for name, _ in table.elements} <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    html = page(study_run(Record.read(path)))
    begin = html.index("<h4>Recognised texts: pocketsphinx")
    seen = Seen(html[begin : html.index("</details>", begin)])
    plain_tags = {"h4", "div", "table", "thead", "tbody", "tr", "th", "td", "span", "bdi"}
    assert {name for name, _ in seen.elements} <= plain_tags
    for text in TEXTS:
        assert " ".join(plain(text, 4000).split()) in " ".join(seen.text.split())
        assert " ".join(plain(text, 5000).split()) in " ".join(table.text.split())
