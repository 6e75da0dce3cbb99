"""A German corpus from its audio to its numbers, each of them worked out by hand; and one in Japanese."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from latency_runs import script
from shown_runs import page, printed

import stopwav
from stopwav.errors import Caution
from stopwav.record import Record
from stopwav.speech import ctm
from stopwav.speech.audio import load
from stopwav.studies.confusions import confusions
from stopwav.studies.corpus_header import language_warnings
from stopwav.studies.latency.stream_table import stream_tables
from stopwav.studies.study import StudyRun

TESTS = Path(__file__).parent.parent.parent
GERMAN, REAL = TESTS / "german", TESTS / "data" / "latency-real.jsonl"
ENGLISH_ENGINE = """
from stopwav.engines.protocol import EngineInfo
from stopwav.speech.events import Hypothesis

class Engine:
    info = EngineInfo(name="english", version="1", language="en-GB")
    def open(self):
        return self
    def push(self, samples):
        return []
    def finish(self):
        return [Hypothesis("good morning")]
    def transcribe(self, batch):
        return ["good morning"] * len(batch)
"""


def warnings_of(record: Record) -> list[Caution]:
    (result,) = stopwav.results(record)
    return [warning for warning in result.warnings if warning.code in ("other-language", "no-aligner", "no-word-times")]


def test_german_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from ctc_model import build_ctc_model

    known = ctm.read(GERMAN / "words.ctm")["satz"]
    audio = load(GERMAN / "satz.ogg", 16_000)
    model = build_ctc_model(tmp_path / "model", audio, known)
    # It shows each word with the chunk in which the word ends; of eleven, two are spelled otherwise and one is missing.
    spelled = [{"straße": "strasse", "größer": "Grösser,"}.get(word.text, word.text) for word in known[:-1]]
    chunks = math.ceil(audio.duration_s / 0.1)
    counts = [sum(word.end_s <= 0.1 * number for word in known[:-1]) for number in range(1, chunks + 1)]
    partials = [" ".join(spelled[:count]) for count in counts]
    engine = script(tmp_path, partials=partials, final=" ".join(spelled), service_ms=1)
    settings = {"corpus": str(GERMAN), "language": "de-DE", "aligner": f"transformers:{model}", "rounds": 1}
    record = stopwav.latency([engine], save=tmp_path / "runs", **settings)

    assert record.header.corpus["languages"] == ["de"]
    assert record.header.corpus["aligner"].startswith("transformers:model ")
    assert record.header.normaliser["name"] == "whisper-basic"
    run = StudyRun(record)
    (result,) = run.results
    values = {name: estimate.value for name, estimate in result.metrics.items()}
    assert values["wer"] == pytest.approx(3 / 11)
    kinds = [values[f"{kind}_rate"] for kind in ("substitution", "deletion", "insertion")]
    assert kinds == pytest.approx([2 / 11, 1 / 11, 0])
    # ß as ss is an error of two characters, twice; " gestern" has eight; the 54 letters have ten spaces between them.
    assert values["cer"] == pytest.approx((2 + 2 + 8) / (54 + 10))
    assert [(found.reference, found.recognised, found.count) for found in confusions(run.texts or [])] == [
        ("gestern", "", 1), ("größer", "grösser", 1), ("straße", "strasse", 1),
    ]  # fmt: skip
    # Shown with the end of the chunk that the word ends in: at 0.6 s for the one that ends at 0.584 s, and so on.
    ends_s = {word.text: word.end_s for word in known}
    words = stream_tables(record)[result.name].words
    shown = {word.text: latency for word, latency in zip(known, words.latency_s.tolist(), strict=True)}
    recognised = [word.text for word in known if word.text not in ("straße", "größer", "gestern")]
    for word in recognised:
        expected_s = 0.1 * math.ceil(ends_s[word] / 0.1) - ends_s[word]
        assert shown[word] == pytest.approx(expected_s, abs=0.035), word  # a frame of the model, and a busy machine
    assert [word for word, latency in shown.items() if math.isnan(latency)] == ["straße", "größer", "gestern"]
    assert not warnings_of(record)
    for text in (page(run), printed(run, every_metric=True)):
        assert "Most frequent confusions" in text
        assert "grösser" in text
    assert "confusions" not in printed(run)


def test_an_english_engine_on_german_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "english.py").write_text(ENGLISH_ENGINE)
    engine = f"{tmp_path}/english.py:Engine"
    record = stopwav.latency([engine], corpus=str(GERMAN), language="de", rounds=1, save=tmp_path / "runs")
    assert {warning.code for warning in warnings_of(record)} == {"no-aligner", "no-word-times", "other-language"}
    (message,) = [warning.message for warning in warnings_of(record) if warning.code == "other-language"]
    assert message.startswith("english recognises en, and the corpus is in de: its error rates and word latency say")
    assert message.endswith("or correct that of the corpus with --language")


@pytest.mark.parametrize(
    ("corpus", "engine", "said"),
    [
        (["de"], ["de-AT"], ""),
        (["de"], [""], ""),
        (["de"], ["multi"], ""),
        (["de"], ["en", "de"], ""),  # what a server says it can
        (["de"], ["en"], "the corpus is in de"),
        (["de", "en"], ["en"], "the corpus is in de"),
        ([], ["en"], ""),
        ([], ["fr"], "the corpus, which does not say its language, is taken for en"),
    ],
)
def test_engines_and_corpora_of_other_languages(corpus: list[str], engine: list[str], said: str) -> None:
    header = Record.read(REAL).header
    header.corpus["languages"] = corpus
    messages = [warning.message for warning in language_warnings(header, "engine", engine)]
    assert (said in messages[0]) if said else not messages
    del header.corpus["languages"]  # older runs do not say
    assert not list(language_warnings(header, "engine", engine))


def test_without_spaces_characters_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "ja"
    folder.mkdir()
    (folder / "a.ogg").write_bytes((GERMAN / "satz.ogg").read_bytes())
    (folder / "a.txt").write_text("今日は、晴れです。\n")
    (folder / "w.ctm").write_text("a 1 0.0 0.5 今日\na 1 0.5 0.4 は\na 1 1.0 0.5 晴れ\na 1 1.5 0.5 です\n")
    engine = script(tmp_path, final="今日 は 雨です", service_ms=1)
    settings = {"corpus": str(folder), "language": "ja", "words": str(folder / "w.ctm"), "rounds": 1}
    record = stopwav.latency([engine], save=tmp_path / "runs", **settings)
    (result,) = stopwav.results(record)
    metrics = result.metrics
    # 晴れ is 雨: one character substituted and one left out, of seven.
    assert metrics["cer"].value == pytest.approx(2 / 7)
    assert (metrics["wer"].value, metrics["wer"].code) == (None, "no-spaces")
    assert (metrics["substitution_rate"].value, metrics["deletion_rate"].value) == pytest.approx((1 / 7, 1 / 7))
    assert [word[0] for word in record.header.corpus["utterances"][0]["words"]] == list("今日は晴れです")
    shown = printed(StudyRun(record))
    assert "(CER)" in shown
    assert "(WER)" not in shown
    assert "CER, %" in page(StudyRun(record))
