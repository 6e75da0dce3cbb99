"""The facts of one stream: what its texts say, whenever they came, and what its times say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stopwav.speech.events import last_text
from stopwav.speech.latency import (
    average_lagging,
    backlog_slope,
    committing_texts,
    differentiable_average_lagging,
    endpoint_latency,
    erased_words,
    final_latency,
    final_words,
    first_word_latency,
    first_word_text,
    length_adaptive_average_lagging,
    match_words,
    shown_texts,
    unstable_words,
)
from stopwav.speech.stored_trace import TraceLists
from stopwav.speech.utterance import Utterance
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class TextFacts:
    """What the texts of a stream say, whenever they came.

    Texts are given by their number in the stream, -1 for none. Errors are None where there is no transcript.
    """

    text: str
    # The first text that showed a word.
    first_by: int
    # For each reference word the texts that first showed it, and since which it never changed.
    shown_by: tuple[int, ...]
    stable_by: tuple[int, ...]
    # For each word of the final text the one since which it and all before it never changed.
    committed_by: tuple[int, ...]
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
    endpoint_latency: float | None
    al: float | None
    laal: float | None
    dal: float | None
    al_ca: float | None
    laal_ca: float | None
    dal_ca: float | None
    backlog_slope: float | None


def text_facts(lists: TraceLists, utterance: Utterance) -> TextFacts:
    """Return what the texts of a stream say of an utterance."""
    texts = shown_texts(lists.texts, utterance.normaliser)
    matched = match_words(lists.due_s, utterance.words, texts)
    final = final_words(texts)
    errors, characters = None, None
    if utterance.text is not None:
        words = utterance.normaliser.words(utterance.text), final
        errors = count_word_errors(*words)
        characters = count_character_errors(*words, utterance.normaliser.separator)
    # A text that is not there is the last of these.
    numbers = [*(text.number for text in texts), -1]
    return TextFacts(
        text=last_text(lists.texts),
        first_by=first_word_text(texts),
        shown_by=tuple(numbers[place] for place in matched.first),
        stable_by=tuple(numbers[place] for place in matched.stable),
        committed_by=tuple(numbers[place] for place in committing_texts(texts)),
        unstable_words=unstable_words(texts),
        erased_words=erased_words(texts),
        errors=errors,
        characters=characters,
    )


def stream_facts(lists: TraceLists, utterance: Utterance, texts: TextFacts) -> StreamFacts:
    """Return the metrics of one stream that need its times."""
    due_s, text_s, words = lists.due_s, lists.text_s, utterance.words
    heard_s = [due_s[lists.texts[number].chunk] for number in texts.committed_by]
    return StreamFacts(
        *first_word_latency(text_s, words, texts.first_by),
        *_final_latency(lists, utterance),
        endpoint_latency(lists.endpoints_s, words),
        *_laggings(heard_s, lists.audio_s, texts.errors),
        *_laggings([text_s[number] for number in texts.committed_by], lists.audio_s, texts.errors),
        None if lists.remote else backlog_slope(due_s, lists.start_s),
    )


def _final_latency(lists: TraceLists, utterance: Utterance) -> tuple[float | None, float | None]:
    """The latency of the final text: of the last call in a process, of the last text that arrived from a server."""
    if lists.remote is None:
        return final_latency(lists.due_s[-1], lists.done_s[-1], utterance.words)
    if not lists.text_s:
        return None, None
    return final_latency(lists.due_s[-1], lists.text_s[-1], utterance.words)


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
