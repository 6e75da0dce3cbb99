"""Corpora in everyone's formats: the same audio, texts and speakers from each; and the options of their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from corpus_reading import noise, refusal, texts
from written_corpora import FORMATS, RATE_HZ, Spoken, Written, folder, make_spoken

from stopwav.speech.audio import load_utterance
from stopwav.speech.corpora.name import located, parse_name
from stopwav.speech.corpus import is_audio_file, load_corpus

pytestmark = pytest.mark.usefixtures("cache")

Write = Callable[[Path, Sequence[Spoken]], Written]


@pytest.mark.parametrize("write", [folder, *FORMATS], ids=lambda write: write.__name__)
def test_every_format_has_the_same_utterances(write: Write, tmp_path: Path) -> None:
    spoken = make_spoken()
    written = write(tmp_path / "x", spoken)
    corpus = load_corpus(written.name)
    assert corpus.problems == ()
    by_id = {utterance.id: utterance for utterance in corpus.utterances}
    assert by_id.keys() == set(written.ids.values())
    for expected in spoken:
        utterance = by_id[written.ids[expected.id]]
        assert np.array_equal(load_utterance(utterance, RATE_HZ).pcm16(), expected.samples)
        assert (utterance.text or "").strip('"“ ') == (expected.text if written.has_texts else "")
        assert utterance.speaker in (expected.speaker, "")
        if written.has_times:
            times = [(word.text, word.start_s, word.end_s) for word in utterance.words]
            assert times == [(word, pytest.approx(a), pytest.approx(b)) for word, a, b in expected.times_s]
    assert load_corpus(written.name).digest == corpus.digest


@pytest.mark.parametrize("other", ["results.parquet", "backup.tar", "notes.csv", "metadata.csv"])
def test_what_lies_next_to_audio_files_is_not_the_corpus(other: str, tmp_path: Path) -> None:
    noise(tmp_path / "a.wav").with_suffix(".txt").write_text("hello")
    (tmp_path / other).write_bytes(b"anything")
    assert texts(load_corpus(tmp_path)) == {"a": "hello"}


# Names with options


def test_a_path_is_the_whole_name_where_it_exists(tmp_path: Path) -> None:
    noise(tmp_path / "a,split=test/x.wav")
    assert parse_name(str(tmp_path / "a,split=test")).options == {}
    assert texts(load_corpus(tmp_path / "a,split=test")) == {"x": None}
    name = parse_name("hf:owner/name,config=de,text=a=b")
    assert (name.source, name.options) == ("hf:owner/name", {"config": "de", "text": "a=b"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("splt=test", "unknown option 'splt': did you mean 'split'?"),
        ("split=dev", r"there is no dev.tsv; choose with split=, there are test, train"),
        ("text=words", "there is no column 'words' for text; it has client_id, path, sentence"),
        ("split=test,split=dev", "option 'split' is given twice"),
        ("split=", "option 'split' has no value"),
    ],
)
def test_wrong_options_are_named(options: str, said: str, tmp_path: Path) -> None:
    from written_corpora import common_voice

    common_voice(tmp_path / "cv", make_spoken())
    assert said in refusal(f"{tmp_path}/cv,{options}")


def test_a_format_without_options_says_so(tmp_path: Path) -> None:
    noise(tmp_path / "x/a.wav")
    assert "unknown option 'split': this format takes no options" in refusal(f"{tmp_path}/x,split=test")


def test_names_that_hold_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert located("data") == f"{tmp_path}/data"
    assert located("hf:data,split=test") == f"hf:{tmp_path}/data,split=test"
    assert located("hf:owner/name,split=test") == "hf:owner/name,split=test"
    assert located("bundled") == "bundled"
    assert located("a.stm,audio_folder=data") == f"{tmp_path}/a.stm,audio_folder={tmp_path}/data"


def test_which_names_are_those_of_one_audio_file(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav")
    (tmp_path / "t.csv").write_text("path\na.wav\n")
    assert is_audio_file(str(tmp_path / "a.wav"))
    assert not any(map(is_audio_file, [str(tmp_path), str(tmp_path / "t.csv"), "bundled", "hf:a/b"]))
