"""The facts of one stream: what its texts say, whenever they came, and what its times say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stopwav.speech.events import Integers, Trace
from stopwav.speech.latency import (
    average_lagging,
    backlog_slope,
    committing_texts,
    differentiable_average_lagging,
    erased_words,
    final_latency,
    final_words,
    first_shown_by,
    first_word_latency,
    length_adaptive_average_lagging,
    match_words,
    shown_texts,
    unstable_words,
)
from stopwav.speech.text import normalise
from stopwav.speech.utterance import Utterance
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors


@dataclass(frozen=True, eq=False)
class TextFacts:
    """What the texts of a stream say, whenever they came.

    Chunks are given by their index in the stream, -1 for none. Errors are None where there is no transcript.
    """

    text: str
    # The first chunk that showed a word.
    first_by: int
    # For each reference word the chunks that first showed it, and since which it never changed.
    shown_by: Integers
    stable_by: Integers
    # For each word of the final text the chunk since which it and all before it never changed.
    committed_by: list[int]
    unstable_words: int
    erased_words: int
    errors: ErrorCount | None
    characters: CharacterErrorCount | None


class StreamFacts(NamedTuple):
    """The metrics that have one value per stream; None where the stream has none."""

    first_word_latency: float | None
    first_word_latency_from_start: float | None
    final_latency: float | None
    final_latency_from_end: float | None
    al: float | None
    laal: float | None
    dal: float | None
    al_ca: float | None
    laal_ca: float | None
    dal_ca: float | None
    backlog_slope: float | None


def text_facts(trace: Trace, utterance: Utterance) -> TextFacts:
    """Return what the texts of a stream say of an utterance."""
    texts = shown_texts(trace)
    chunks = [text.chunk for text in texts]
    matched = match_words(trace, utterance.words, texts)
    final = final_words(texts)
    errors, characters = None, None
    if utterance.text is not None:
        words = normalise(utterance.text), final
        errors, characters = count_word_errors(*words), count_character_errors(*words)
    return TextFacts(
        text=trace.text,
        first_by=first_shown_by(texts),
        shown_by=_chunks(chunks, matched.first),
        stable_by=_chunks(chunks, matched.stable),
        committed_by=[chunks[number] for number in committing_texts(texts)],
        unstable_words=unstable_words(texts),
        erased_words=erased_words(texts),
        errors=errors,
        characters=characters,
    )


def _chunks(chunks: Sequence[int], texts: Sequence[int]) -> Integers:
    return np.array([chunks[number] if number >= 0 else -1 for number in texts], dtype=np.int64)


def stream_facts(trace: Trace, utterance: Utterance, texts: TextFacts) -> StreamFacts:
    """Return the metrics of one stream that need its times."""
    words = utterance.words
    algorithmic = [float(trace.due_s[chunk]) for chunk in texts.committed_by]
    aware = [float(trace.done_s[chunk]) for chunk in texts.committed_by]
    return StreamFacts(
        *first_word_latency(trace, words, texts.first_by),
        *final_latency(trace, words),
        *_laggings(algorithmic, trace.audio_s, texts.errors),
        *_laggings(aware, trace.audio_s, texts.errors),
        backlog_slope(trace),
    )


def _laggings(
    delays_s: Sequence[float], audio_s: float, errors: ErrorCount | None
) -> tuple[float | None, float | None, float | None]:
    """AL, LAAL and DAL; the first two need a transcript."""
    dal = differentiable_average_lagging(delays_s, audio_s)
    if errors is None:
        return None, None, dal
    words = errors.words
    al, laal = average_lagging(delays_s, audio_s, words), length_adaptive_average_lagging(delays_s, audio_s, words)
    return al, laal, dal
