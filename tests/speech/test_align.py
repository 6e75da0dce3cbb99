"""The aligner against times that are known, and against input that cannot be aligned."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.speech.align import align_corpus
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import Corpus, Utterance, bundled_corpus, load_corpus
from stopwav.speech.pocketsphinx_aligner import align, guess_pronunciation
from stopwav.speech.text import normalise

SHARED = Path("../shared/data/librispeech")
PHONES = "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"


def bare(corpus: Corpus) -> Corpus:
    return replace(corpus, utterances=tuple(replace(utterance, words=()) for utterance in corpus.utterances))


def sentence(number: int) -> tuple[Audio, Utterance]:
    utterance = bundled_corpus().utterances[number]
    return load(utterance.path, 16_000), utterance


@pytest.fixture(scope="module")
def aligned() -> Corpus:
    return align_corpus(bare(bundled_corpus()))


def test_the_error_against_the_known_times_is_small(aligned: Corpus) -> None:
    assert aligned.problems == ()
    assert aligned.cautions == ()
    errors = []
    for true, found in zip(bundled_corpus().utterances, aligned.utterances, strict=True):
        assert [word.text for word in found.words] == [word.text for word in true.words]
        for word, guessed in zip(true.words, found.words, strict=True):
            errors.append((abs(guessed.start_s - word.start_s), abs(guessed.end_s - word.end_s)))
    medians, tails = np.median(errors, axis=0), np.percentile(errors, 95, axis=0)
    assert (medians < 0.015).all(), medians
    assert (tails < 0.050).all(), tails


def test_alignment_does_not_depend_on_what_came_before(aligned: Corpus) -> None:
    order = random.Random(3).sample(aligned.utterances, 8)
    for utterance in order:
        assert align(load(utterance.path, 16_000), utterance.text).words == utterance.words


def test_words_are_in_order_and_inside_the_audio(aligned: Corpus) -> None:
    for utterance in aligned.utterances:
        duration_s = load(utterance.path, 16_000).duration_s
        assert all(0.0 <= word.start_s < word.end_s <= duration_s for word in utterance.words)
        assert all(before.end_s <= after.start_s for before, after in pairwise(utterance.words))


def test_any_sample_rate(aligned: Corpus) -> None:
    audio, utterance = sentence(2)
    words = align(audio.resampled(44_100), utterance.text).words
    for word, other in zip(words, aligned.utterances[2].words, strict=True):
        assert word.start_s == pytest.approx(other.start_s, abs=0.031)


def test_speech_that_ends_with_the_file() -> None:
    audio, utterance = sentence(1)
    cut = Audio(audio.samples[: int(utterance.words[-1].end_s * 16_000)], 16_000)
    words = align(cut, utterance.text).words
    assert words[-1].end_s <= cut.duration_s
    assert words[-1].end_s == pytest.approx(utterance.words[-1].end_s, abs=0.05)


def test_unknown_words_are_guessed_and_reported_every_time() -> None:
    audio, utterance = sentence(3)
    assert utterance.words[1].text == "ferry"
    text = utterance.text.replace("ferry", "pherrie")
    for _ in range(2):
        alignment = align(audio, text)
        assert alignment.guessed == ("pherrie",)
        assert alignment.words[1].text == "pherrie"
        assert alignment.words[1].start_s == pytest.approx(utterance.words[1].start_s, abs=0.05)
    assert align(audio, utterance.text).guessed == ()


@pytest.mark.parametrize("text", ["", "   ", "...", "<noise>"])
def test_no_words_have_no_times(text: str) -> None:
    assert align(sentence(0)[0], text).words == ()


@pytest.mark.parametrize("seconds", [0.0, 0.0001, 0.05])
def test_audio_too_short_for_its_words_is_refused(seconds: float) -> None:
    audio = Audio(sentence(0)[0].samples[4000 : 4000 + int(seconds * 16_000)], 16_000)
    for text in ("a", "good morning"):
        with pytest.raises(StopwavError, match=f"no alignment of '{text}'"):
            align(audio, text)


def test_what_would_take_hours_to_align_is_refused_at_once() -> None:
    with pytest.raises(StopwavError, match="4001 s are too long to be aligned, 4000 s at most; cut the recording"):
        align(Audio(np.zeros(40_010, np.float32), 10), "good morning")
    with pytest.raises(StopwavError, match="no alignment of 'hello "):
        align(sentence(0)[0], "hello " * 100_000)


def test_running_out_of_memory_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*arguments: object) -> Audio:
        raise MemoryError

    monkeypatch.setattr("stopwav.speech.align.load_utterance", run_out)
    (problem,) = align_corpus(Corpus("test", bare(bundled_corpus()).utterances[:1])).problems
    assert problem.message.startswith("not enough memory to align it; cut it into segments")


def test_another_transcript_or_silence_is_refused_or_at_least_survived() -> None:
    audio, utterance = sentence(0)
    with pytest.raises(StopwavError, match=r"no alignment of 'hello hello .*…' with its 1\.11 s"):
        align(audio, "hello " * 500)
    with pytest.raises(StopwavError):
        align(Audio(np.zeros(32_000, np.float32), 16_000), "hello there")
    for text in ("日本語 привет", "naïve café", "a\0b", "(2) [x] <s>", "x" * 400, "\ud800 hi", "don't o'clock 'tis"):
        try:
            words = align(audio, text).words
        except StopwavError:
            continue
        assert [word.text for word in words] == normalise(text)
    assert [word.text for word in align(audio, utterance.text).words] == ["good", "morning"]


def test_a_corpus_keeps_what_cannot_be_aligned(tmp_path: Path) -> None:
    good = bundled_corpus().utterances[0]
    soundfile.write(tmp_path / "short.wav", np.zeros(800), 16_000)
    (tmp_path / "broken.wav").write_text("no audio")
    utterances = (
        good,
        replace(good, id="bare", words=()),
        Utterance("broken", tmp_path / "broken.wav", "good morning"),
        Utterance("short", tmp_path / "short.wav", "good morning"),
        replace(good, id="strange", words=(), text="ghoud morning"),
    )
    calls: list[tuple[int, int]] = []
    corpus = align_corpus(Corpus("test", utterances), lambda done, total: calls.append((done, total)))
    assert [(utterance.id, len(utterance.words)) for utterance in corpus.utterances] == [
        ("01-slt", 2), ("bare", 2), ("broken", 0), ("short", 0), ("strange", 2),
    ]  # fmt: skip
    assert corpus.utterances[0] is good
    assert [problem.where for problem in corpus.problems] == ["broken", "short"]
    assert [caution.code for caution in corpus.cautions] == ["guessed-pronunciation"]
    assert "strange" in corpus.cautions[0].message
    assert "ghoud" in corpus.cautions[0].message
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_nothing_is_said_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    align(*(lambda audio, utterance: (audio, utterance.text))(*sentence(0)))
    with pytest.raises(StopwavError):
        align(Audio(np.zeros(800, np.float32), 16_000), "zzyzx road")
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared LibriSpeech utterances")
def test_real_speech_is_aligned() -> None:
    corpus = align_corpus(load_corpus(SHARED))
    assert corpus.problems == ()
    assert all(len(utterance.words) == len(normalise(utterance.text)) for utterance in corpus.utterances)


@given(st.text(min_size=1, max_size=30))
def test_every_word_has_a_pronunciation(word: str) -> None:
    assert set(guess_pronunciation(word).split()) <= set(PHONES.split())
    assert guess_pronunciation(word)


@pytest.mark.parametrize(
    ("word", "phones"),
    [("cat", "K AE T"), ("cake", "K EY K"), ("shipping", "SH IH P IH NG"), ("the", "TH EH"), ("quick", "K W IH K"),
     ("café", "K EY F"), ("nation", "N AE SH AH N"), ("zoo", "Z UW"), (string.digits, "AH")],
)  # fmt: skip
def test_plain_words_sound_about_right(word: str, phones: str) -> None:
    assert guess_pronunciation(word) == phones
