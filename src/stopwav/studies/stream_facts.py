"""The facts of one stream: what its texts say, whenever they came, and what its times say."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NamedTuple

from stopwav.speech.events import last_text
from stopwav.speech.latency import (
    committing_texts,
    endpoint_latency,
    erased_words,
    final_latency,
    final_words,
    first_word_latency,
    first_word_text,
    match_words,
    shown_texts,
    unstable_words,
)
from stopwav.speech.stored_trace import TraceLists
from stopwav.speech.utterance import Utterance
from stopwav.speech.waterfall import earliest_chunk
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors

# The largest number that two bytes hold.
MOST_SHORT = 2**15 - 1


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class TextFacts:
    """What the texts of a stream say, whenever they came.

    A corpus has hundreds of thousands of them, so all numbers are in one array. Errors are None where there is no
    transcript.
    """

    text: str
    # The number of the first text that showed a word, -1 for none.
    first_by: int
    # How many texts there are, and reference words.
    texts: int
    reference_words: int
    unstable_words: int
    erased_words: int
    errors: ErrorCount | None
    characters: CharacterErrorCount | None
    # The chunk of each text; for each reference word the text that first showed it, for each that since which it never
    # changed, and for each the first chunk by which all that the engine needed of it was heard; and for each word of
    # the final text the one since which it and all before it never changed. Texts are given by their number, -1 for
    # none.
    numbers: array[int]

    @property
    def final_words(self) -> int:
        """The number of words in the final text."""
        return len(self.numbers) - self.texts - 3 * self.reference_words


class StreamFacts(NamedTuple):
    """The metrics that have one value per stream; NaN where the stream has none."""

    first_word_latency: float
    first_word_latency_from_start: float
    final_latency: float
    final_latency_from_end: float
    endpoint_latency: float
    al: float
    laal: float
    dal: float
    al_ca: float
    laal_ca: float
    dal_ca: float
    backlog_slope: float


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
    by_place = [*(text.number for text in texts), -1]
    numbers = [text.chunk for text in lists.texts]
    numbers += [by_place[place] for place in (*matched.first, *matched.stable)]
    numbers += [earliest_chunk(lists.due_s, word.end_s + lists.lookahead_s) for word in utterance.words]
    numbers += [by_place[place] for place in committing_texts(texts)]
    return TextFacts(
        text=last_text(lists.texts),
        first_by=first_word_text(texts),
        texts=len(lists.texts),
        reference_words=len(utterance.words),
        unstable_words=unstable_words(texts),
        erased_words=erased_words(texts),
        errors=errors,
        characters=characters,
        numbers=array("h" if max(numbers, default=0) <= MOST_SHORT else "i", numbers),
    )


def times_of_texts(
    lists: TraceLists, texts: TextFacts, start_s: float | None, end_s: float | None
) -> tuple[float | None, ...]:
    """Return the first five facts of a stream, None where it has none.

    The first word of the utterance starts at `start_s`, the last one ends at `end_s`.
    """
    final: tuple[float | None, float | None] = (None, None)
    first_s = None
    if lists.arrivals_s is None:
        # The final text is that of the last call in a process, and the last that arrived from a server.
        final = final_latency(lists.due_s[-1], lists.done_s[-1], end_s)
        if texts.first_by >= 0:
            first_s = lists.done_s[lists.texts[texts.first_by].chunk]
    elif lists.arrivals_s:
        final = final_latency(lists.due_s[-1], lists.arrivals_s[-1], end_s)
        if texts.first_by >= 0:
            first_s = lists.arrivals_s[texts.first_by]
    return (*first_word_latency(first_s, start_s), *final, endpoint_latency(lists.endpoints_s, end_s))
