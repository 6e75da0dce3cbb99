"""When each word is spoken, found by pocketsphinx's forced alignment where no word times are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from stopwav.errors import Caution, StopwavError
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import Corpus, Problem, Utterance, Word
from stopwav.speech.pronunciation import guess
from stopwav.speech.text import normalise

SAMPLE_RATE_HZ = 16_000  # that of pocketsphinx's English model

FRAME_S = 0.010  # pocketsphinx's frame shift

# Frame k is computed from a window of 25.625 ms that starts at k · 10 ms, so it speaks for the 10 ms around the middle
# of that window: the border between frames k − 1 and k lies at k · 10 ms + (25.625 − 10) / 2 ms.
BORDER_S = 0.0078

# pocketsphinx holds a silence for unlikely (0.005), and would rather stretch a word over a short pause than see one.
# Where the speaker paused is not for the transcript to say: no penalty.
SILENCE_PROBABILITY = 1.0

# Silence appended before aligning, so that the last word ends where its sound does and not where the file does.
TAIL = np.zeros(round(0.2 * SAMPLE_RATE_HZ), np.int16)


@dataclass(frozen=True)
class Alignment:
    """The words of an utterance with their times, and those of them whose pronunciation had to be guessed."""

    words: tuple[Word, ...]
    guessed: tuple[str, ...] = ()


@dataclass
class _Aligner:
    """pocketsphinx's decoder and the words that were added to its dictionary."""

    decoder: Any
    guessed: set[str] = field(default_factory=set)


def align(audio: Audio, text: str) -> Alignment:
    """The time of every word of `text` in the audio, to 10 ms; the same whatever was aligned before."""
    words = normalise(text)
    if not words:
        return Alignment(())
    samples = audio.resampled(SAMPLE_RATE_HZ).pcm16()
    aligner = _aligner()
    guessed = _teach(aligner, words)
    decoder = aligner.decoder
    decoder.reinit_feat()  # forgets the mean spectrum of the utterances before
    found: list[Word] = []
    if len(samples):  # pocketsphinx raises on none
        decoder.set_align_text(" ".join(words))
        decoder.start_utt()
        decoder.process_raw(np.concatenate([samples, TAIL]).tobytes(), full_utt=True)
        decoder.end_utt()
        found = [_word(segment, audio.duration_s) for segment in decoder.seg() or () if segment.word[0] not in "<["]
    # A word that starts after the audio was found in the silence we added.
    if [word.text for word in found] != words or found[-1].start_s >= audio.duration_s:
        raise StopwavError(
            f"no alignment of {_shortened(text)!r} with its {audio.duration_s:.2f} s of audio; check that this is what "
            "is said, or give the word times in a CTM file (--words)"
        )
    return Alignment(tuple(found), guessed)


def align_corpus(corpus: Corpus, progress: Callable[[int, int], None] | None = None) -> Corpus:
    """The corpus with the word times of every utterance that had none; what could not be aligned stays, with a problem.

    `progress` is told after each utterance how many of how many are done.
    """
    missing = [utterance for utterance in corpus.utterances if not utterance.words]
    aligned: dict[str, Utterance] = {}
    problems, cautions = list(corpus.problems), list(corpus.cautions)
    for done, utterance in enumerate(missing, start=1):
        try:
            audio = load(utterance.path, SAMPLE_RATE_HZ, utterance.start_s, utterance.end_s)
            alignment = align(audio, utterance.text)
        except StopwavError as error:
            problems.append(Problem(utterance.id, str(error)))
        else:
            aligned[utterance.id] = replace(utterance, words=alignment.words)
            if alignment.guessed:
                cautions.append(_guess_caution(utterance.id, alignment.guessed))
        if progress is not None:
            progress(done, len(missing))
    utterances = tuple(aligned.get(utterance.id, utterance) for utterance in corpus.utterances)
    return replace(corpus, utterances=utterances, problems=tuple(problems), cautions=tuple(cautions))


@cache
def _aligner() -> _Aligner:
    """The one aligner of this process: loading its model takes longer than aligning a sentence."""
    from pocketsphinx import Decoder  # costs 0.1 s, and most uses of the package align nothing

    rate_hz = float(SAMPLE_RATE_HZ)
    return _Aligner(Decoder(lm=None, samprate=rate_hz, silprob=SILENCE_PROBABILITY, loglevel="FATAL"))


def _teach(aligner: _Aligner, words: list[str]) -> tuple[str, ...]:
    """The words that are not in pocketsphinx's own dictionary, which has a guess for each now."""
    for word in words:
        if aligner.decoder.lookup_word(word) is None:
            aligner.decoder.add_word(word, guess(word), True)
            aligner.guessed.add(word)
    return tuple(dict.fromkeys(word for word in words if word in aligner.guessed))


def _word(segment: Any, duration_s: float) -> Word:
    """A segment as a word within the audio; pocketsphinx names other pronunciations `word(2)`."""
    start_s = min(segment.start_frame * FRAME_S + BORDER_S, duration_s)
    end_s = min((segment.end_frame + 1) * FRAME_S + BORDER_S, duration_s)
    return Word(segment.word.partition("(")[0], round(start_s, 4), round(end_s, 4))


def _guess_caution(utterance_id: str, guessed: tuple[str, ...]) -> Caution:
    message = (
        f"{utterance_id}: the pronunciation of {', '.join(guessed)} was guessed from its letters, so the word times "
    )
    return Caution("guessed-pronunciation", message + "near it may be off; give exact ones in a CTM file (--words)")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
