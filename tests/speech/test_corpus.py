"""The bundled corpus, the script that makes it, word times from outside, and what a corpus is called."""

from __future__ import annotations

import ctypes
import runpy
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.audio import load
from stopwav.speech.corpus import Corpus, Word, bundled_corpus, load_corpus
from stopwav.speech.text import normalise

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "src/stopwav/speech/data/corpus"


def has_flite() -> bool:
    try:
        ctypes.CDLL("libflite.so.1")
        ctypes.CDLL("libflite_cmu_us_slt.so.1")
    except OSError:
        return False
    return True


def small(folder: Path, words: str = "") -> Path:
    """A folder of two utterances, and its CTM file."""
    for name in ("a", "b"):
        soundfile.write(folder / f"{name}.wav", np.zeros(16_000), 16_000)
    (folder / "transcripts.txt").write_text("a It's twenty-one, sir.\nb Go!\n")
    (folder / "w.ctm").write_text(words)
    return folder / "w.ctm"


def level_db(samples: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-12))


# The bundled corpus


def test_the_bundled_corpus_is_what_it_is_said_to_be() -> None:
    corpus = load_corpus()
    assert corpus == load_corpus("bundled") == bundled_corpus()
    assert corpus.problems == ()
    assert len(corpus.utterances) == 24
    voices = [utterance.speaker for utterance in corpus.utterances]
    assert {voice: voices.count(voice) for voice in voices} == {"slt": 8, "rms": 8, "awb": 8}
    assert set(voices[:3]) == {"slt", "rms", "awb"}, "the first few utterances already hold all voices"
    total_s = sum(load(utterance.path, 16_000).duration_s for utterance in corpus.utterances)
    assert 120 < total_s < 132
    assert sum(path.stat().st_size for path in BUNDLED.iterdir()) < 4_000_000
    for utterance in corpus.utterances:
        info = soundfile.info(utterance.path)
        assert (info.samplerate, info.channels, info.format, info.subtype) == (16_000, 1, "FLAC", "PCM_16")
        assert not any(character.isdigit() for character in utterance.text)


def test_the_bundled_word_times_are_of_these_words_and_within_the_audio() -> None:
    for utterance in bundled_corpus().utterances:
        assert [word.text for word in utterance.words] == normalise(utterance.text)
        duration_s = load(utterance.path, 16_000).duration_s
        assert utterance.words[0].start_s > 0.05
        assert utterance.words[-1].end_s < duration_s - 0.05
        assert all(0.01 < word.end_s - word.start_s < 1.2 for word in utterance.words)
        assert all(before.end_s <= after.start_s for before, after in pairwise(utterance.words))


def test_the_bundled_pauses_are_quiet_and_the_words_are_not() -> None:
    """The times come from the synthesiser and the levels from the samples: if either were shifted, this would fail."""
    pauses = 0
    for utterance in bundled_corpus().utterances:
        audio = load(utterance.path, 16_000)
        speech_db = level_db(audio.samples)
        borders = [0.0, *(time for word in utterance.words for time in (word.start_s, word.end_s)), audio.duration_s]
        for start_s, end_s in zip(borders[::2], borders[1::2], strict=True):
            if end_s - start_s > 0.06:
                inside = audio.samples[int((start_s + 0.02) * 16_000) : int((end_s - 0.02) * 16_000)]
                assert level_db(inside) < speech_db - 25, (utterance.id, start_s)
                pauses += 1
        for word in utterance.words:
            inside = audio.samples[int(word.start_s * 16_000) : int(word.end_s * 16_000)]
            assert level_db(inside) > speech_db - 25, (utterance.id, word)
    assert pauses > 60, "before and after each utterance, and in the middle of many"


def test_the_bundled_words_are_in_the_dictionary_of_the_embedded_recogniser() -> None:
    pocketsphinx = pytest.importorskip("pocketsphinx")
    path = Path(pocketsphinx.get_model_path("en-us/cmudict-en-us.dict"))
    known = {line.split()[0] for line in path.read_text().splitlines()}
    assert {word.text for utterance in bundled_corpus().utterances for word in utterance.words} <= known


@pytest.mark.skipif(not has_flite(), reason="needs flite's library and voices")
def test_the_script_makes_the_bundled_corpus_again(tmp_path: Path) -> None:
    make = runpy.run_path(str(ROOT / "scripts/make_corpus.py"))["make"]
    assert make(tmp_path / "one") == make(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in BUNDLED.iterdir() if path.name != "README.md")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    # Another processor's mathematics may differ in the last bit from that of the machine the corpus was made on.
    made, kept = ctm.read(tmp_path / "one/words.ctm"), ctm.read(BUNDLED / "words.ctm")
    assert made.keys() == kept.keys()
    for name in made:
        np.testing.assert_allclose(*([(w.start_s, w.end_s) for w in words[name]] for words in (made, kept)), atol=1e-3)
        ours, theirs = (
            soundfile.read(folder / f"{name}.flac", dtype="int16")[0] for folder in (tmp_path / "one", BUNDLED)
        )
        assert np.abs(ours.astype(int) - theirs).max() <= 4


# Word times from a CTM file


def test_word_times_are_attached_in_normal_spelling(tmp_path: Path) -> None:
    words = small(
        tmp_path,
        "a 1 0.0 0.1 <sil>\na 1 0.1 0.1 IT'S\na 1 0.2 0.1 Twenty\na 1 0.3 0.1 one\na 1 0.4 0.1 sir.\n",
    )
    corpus = load_corpus(tmp_path, words)
    assert corpus.utterances[0].words == (
        Word("it's", 0.1, 0.2),
        Word("twenty", 0.2, 0.3),
        Word("one", 0.3, 0.4),
        Word("sir", 0.4, 0.5),
    )
    assert corpus.utterances[1].words == ()
    assert corpus.problems == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("b 1 0.1 0.1 stop", "word 1 is 'stop' where the transcript has 'go'"),
        ("b 1 0.1 0.1 go\nb 1 0.2 0.1 on", "word 2 is 'on' where the transcript has 'nothing more'"),
        ("b 1 0.1 0.1 <eps>", "word 1 is 'nothing more' where the transcript has 'go'"),
        ("b 1 -0.1 0.2 go", "'go' lasts from -0.100 s to 0.100 s"),
        ("b 1 0.3 -0.1 go", "'go' lasts from 0.300 s to 0.200 s"),
        ("a 1 0 1 it's\na 1 1 1 twenty-one\na 1 2 1 sir", "'twenty-one' at 1.000 s counts as 2 words"),
        (
            "a 1 0.5 0.1 it's\na 1 0.2 0.1 twenty\na 1 0.6 0.1 one\na 1 0.7 0.1 sir",
            "times go back at 'twenty' (0.200 s)",
        ),
    ],
)
def test_word_times_that_do_not_fit_are_left_out_and_named(tmp_path: Path, words: str, said: str) -> None:
    corpus = load_corpus(tmp_path, small(tmp_path, words))
    assert [utterance.id for utterance in corpus.utterances] == ["a", "b"]
    assert all(utterance.words == () for utterance in corpus.utterances)
    (problem,) = corpus.problems
    assert problem.where == words[0]
    assert problem.message.startswith(f"w.ctm: {said}")


def test_word_times_of_nobody_are_named_once(tmp_path: Path) -> None:
    (problem,) = load_corpus(tmp_path, small(tmp_path, "y 1 0 1 hm\nx 1 0 1 hm\nb 1 0.1 0.1 go\n")).problems
    assert problem.where == "w.ctm"
    assert "2 ids" in problem.message
    assert "'x'" in problem.message


def test_word_times_after_the_end_of_a_segment(tmp_path: Path) -> None:
    words = small(tmp_path, "b 1 0.1 0.9 go\n")
    (tmp_path / "m.jsonl").write_text('{"audio_filepath": "b.wav", "text": "go", "offset": 0.5, "duration": 0.5}\n')
    (tmp_path / "m.ctm").write_text(words.read_text().replace("b", "b@0.500"))
    (problem,) = load_corpus(tmp_path / "m.jsonl", tmp_path / "m.ctm").problems
    assert "'go' ends at 1.000 s, after the utterance does" in problem.message


def test_a_bad_ctm_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=r"w\.ctm:1: 3 fields"):
        load_corpus(tmp_path, small(tmp_path, "a 1 0.0\n"))


# Which corpus


def test_nothing_found_names_the_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    (tmp_path / "x.m4a").write_bytes(b"")
    for source, said in (
        (tmp_path, r"1 problem; x\.m4a: stopwav does not read \.m4a files; convert it: ffmpeg -i x\.m4a x\.wav"),
        (tmp_path / "gone", "does not exist"),
        (tmp_path / "notes.txt", "is a file of an unknown format"),
        ("z" * 5000, "does not exist"),
    ):
        with pytest.raises(StopwavError, match=said) as caught:
            load_corpus(source)
        for form in ("bundled", "transcripts.txt", "LibriSpeech", "NeMo", "Kaldi"):
            assert form in str(caught.value)


def test_a_manifest_by_any_name(tmp_path: Path) -> None:
    small(tmp_path)
    (tmp_path / "list.manifest").write_text('\ufeff\n {"audio_filepath": "b.wav", "text": "go"}\n', encoding="utf-8")
    assert [utterance.id for utterance in load_corpus(tmp_path / "list.manifest").utterances] == ["b"]


def test_the_digest_follows_what_is_measured_and_nothing_else(tmp_path: Path) -> None:
    small(tmp_path)
    corpus = load_corpus(tmp_path)
    digest = corpus.digest
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    assert replace(corpus, name="other", problems=bundled_corpus().problems).digest == digest
    assert replace(corpus, utterances=corpus.utterances[::-1]).digest == digest
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.copytree(tmp_path, moved)
    assert load_corpus(moved).digest == digest

    def changed(**fields: object) -> Corpus:
        return replace(corpus, utterances=(replace(corpus.utterances[0], **fields), *corpus.utterances[1:]))

    others = [
        changed(id="c"),
        changed(text="It is"),
        changed(start_s=0.1),
        changed(end_s=0.9),
        changed(words=(Word("it's", 0.0, 0.1),)),
        changed(path=tmp_path / "gone.wav"),
        replace(corpus, utterances=corpus.utterances[:1]),
    ]
    assert len({digest, *(other.digest for other in others)}) == len(others) + 1
    soundfile.write(tmp_path / "a.wav", np.zeros(17_000), 16_000)
    assert load_corpus(tmp_path).digest != digest
