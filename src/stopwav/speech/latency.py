"""Every streaming metric, as pure functions of a stream's trace and its reference word times.

Definitions: docs/concepts/latency.md. Times are seconds of stream time; 0 is when the first sample is spoken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stopwav.speech.events import TextChange, Trace
from stopwav.speech.growing_text import GrowingText
from stopwav.speech.matching import Matcher, matches
from stopwav.speech.normaliser import STOPWAV, Normaliser
from stopwav.speech.utterance import Word
from stopwav.speech.waterfall import STAGES, earliest_chunk, remote_waterfalls, waterfalls


class ShownText(NamedTuple):
    """A text shown to the listener: by which chunk, how many words of the text before it stay, and the words after.

    `number` is its place among the texts of the trace, of which some changed nothing that is shown.
    """

    chunk: int
    kept: int
    added: list[str]
    number: int


class WordTexts(NamedTuple):
    """For each reference word the index of the text that first shows it, and since which it never changed; or -1."""

    first: list[int]
    stable: list[int]


@dataclass(frozen=True)
class WordDelay:
    """One reference word: when it first appeared, when it was committed, and why it took so long."""

    word: Word
    shown_s: float | None
    stable_s: float | None
    waterfall: dict[str, float] | None

    @property
    def latency_s(self) -> float | None:
        """From the end of the word to its first correct appearance (UPL); negative where it appeared before the end."""
        return None if self.shown_s is None else self.shown_s - self.word.end_s

    @property
    def stabilisation_s(self) -> float | None:
        """From its first appearance to the moment after which it never changed."""
        return None if self.shown_s is None or self.stable_s is None else self.stable_s - self.shown_s

    @property
    def committed_s(self) -> float | None:
        """From the end of the word to the moment after which it never changed."""
        return None if self.stable_s is None else self.stable_s - self.word.end_s


def algorithmic_latency(chunk_s: float, lookahead_s: float) -> tuple[float, float]:
    """Return the longest and the mean wait that the algorithm imposes on an infinitely fast machine."""
    return chunk_s + lookahead_s, chunk_s / 2 + lookahead_s


def reconstructed_lags(trace: Trace) -> list[float]:
    """Return the chunk lags that virtual time gives for the service times of a trace, however it was paced.

    On a trace in real time this checks the reconstruction: the same work, with the waiting computed.
    """
    lags, done_s = [], 0.0
    for due_s, service_s in zip(trace.due_s[:-1].tolist(), trace.service_s[:-1].tolist(), strict=True):
        done_s = max(due_s, done_s) + service_s
        lags.append(done_s - due_s)
    return lags


def shown_texts(changes: Sequence[TextChange], normaliser: Normaliser = STOPWAV) -> list[ShownText]:
    """Return the texts a listener saw, in order, each change once."""
    text = GrowingText(normaliser)
    texts: list[ShownText] = []
    for number, (chunk, kept, added) in enumerate(changes):
        count = len(text.words)
        same, new = text.change(kept, added)
        if new or same < count:
            texts.append(ShownText(chunk, same, new, number))
    return texts


def final_words(texts: Sequence[ShownText]) -> list[str]:
    """Return the words of the last text."""
    words: list[str] = []
    for text in texts:
        words[text.kept :] = text.added
    return words


def match_words(due_s: Sequence[float], words: Sequence[Word], texts: Sequence[ShownText]) -> WordTexts:
    """Return which text first shows each reference word, and since which text it never changed.

    `due_s` is when each chunk is due.
    """
    matcher = Matcher([word.text for word in words])
    starts_s = sorted(word.start_s for word in words)
    first, stable = [-1] * len(words), [-1] * len(words)
    present: list[int] = []
    for number, text in enumerate(texts):
        # With the last chunk the stream has ended.
        begun = len(words) if text.chunk == len(due_s) - 1 else bisect_left(starts_s, due_s[text.chunk])
        start, matched = matcher.change(text.kept, text.added, begun)
        place = bisect_left(present, start)
        if place < len(present):
            for position in set(present[place:]).difference(matched):
                stable[position] = -1
        present[place:] = matched
        for position in matched:
            if first[position] < 0:
                first[position] = number
            if stable[position] < 0:
                stable[position] = number
    return WordTexts(first, stable)


def word_delays(trace: Trace, words: Sequence[Word], texts: Sequence[ShownText]) -> list[WordDelay]:
    """Return the delay of each reference word, with `None` where it was never in the hypothesis."""
    found = match_words(trace.due_s.tolist(), words, texts)
    delays = []
    for word, first, stable in zip(words, found.first, found.stable, strict=True):
        if first < 0:
            delays.append(WordDelay(word, None, None, None))
            continue
        stable_s = float(trace.text_s[texts[stable].number]) if stable >= 0 else None
        shown_s = float(trace.text_s[texts[first].number])
        delays.append(WordDelay(word, shown_s, stable_s, waterfall(trace, word, texts[first])))
    return delays


def waterfall(trace: Trace, word: Word, text: ShownText) -> dict[str, float]:
    """Return the parts of a word's latency, which add up to it, for a word first shown by the given text."""
    end_s = np.array([word.end_s])
    earliest = np.array([earliest_chunk(trace.due_s.tolist(), word.end_s + trace.lookahead_s)])
    if trace.remote is not None:
        reported_s = trace.remote.queue_s[text.number] if trace.remote.queue_s else 0.0
        way_s = np.array([trace.remote.network_s or 0.0]), np.array([reported_s])
        times = trace.due_s, trace.start_s, end_s, trace.lookahead_s, earliest
        parts = remote_waterfalls(*times, trace.text_s[[text.number]], *way_s)
    else:
        stages = {name: trace.stage_seconds[name] for name in STAGES if name in trace.stage_seconds}
        times_of_chunks = trace.due_s, trace.start_s, trace.done_s
        shown = np.array([text.chunk])
        parts = waterfalls(*times_of_chunks, stages, end_s, trace.lookahead_s, earliest, shown)
    return {part: float(seconds[0]) for part, seconds in parts.items()}


def first_word_text(texts: Sequence[ShownText]) -> int:
    """Return the number of the first text that showed a word, or -1."""
    return next((text.number for text in texts if text.kept or text.added), -1)


def first_word_latency(shown_s: float | None, start_s: float | None) -> tuple[float | None, float | None]:
    """Return the time to first partial from the start of the first word, and from the start of the stream.

    `shown_s` is when the first text that has a word was shown, `start_s` the start of the first word that was spoken.
    """
    return (None if shown_s is None or start_s is None else shown_s - start_s), shown_s


def final_latency(end_s: float, final_s: float, word_end_s: float | None) -> tuple[float | None, float]:
    """Return the latency of the final text from the end of the last word, and from the end of the stream."""
    return (None if word_end_s is None else final_s - word_end_s), final_s - end_s


def endpoint_latency(endpoints_s: Sequence[float], word_end_s: float | None) -> float | None:
    """Return the time from the end of the last word to the event that says that the utterance is over, if one does.

    Events before that end are of pauses inside the utterance; of several after it, the last one is of its end.
    """
    after = [at_s for at_s in endpoints_s if word_end_s is not None and at_s >= word_end_s]
    return after[-1] - (word_end_s or 0.0) if after else None


def unstable_words(texts: Sequence[ShownText]) -> int:
    """Count the words shown in some partial and later changed or removed."""
    words: list[str] = []
    changed = 0
    for text in texts:
        removed = words[text.kept :]
        if removed:
            changed += len(removed) - _count_matches(removed, text.added)
        words[text.kept :] = text.added
    return changed


def _count_matches(before: Sequence[str], after: Sequence[str]) -> int:
    # Most changes are of a word or two, for which there is nothing to align.
    if not after:
        return 0
    if len(before) == 1:
        return int(before[0] in after)
    return int(after[0] in before) if len(after) == 1 else len(matches(before, after))


def erased_words(texts: Sequence[ShownText]) -> int:
    """Count the words an append-only display would have to erase: at each change, all from the first difference on."""
    erased = length = 0
    for text in texts:
        erased += length - text.kept
        length = text.kept + len(text.added)
    return erased


def committing_texts(texts: Sequence[ShownText]) -> list[int]:
    """Return for each word of the final text the index of the text since which it and all before it never changed."""
    commits: list[int] = []
    for number, text in enumerate(texts):
        commits[text.kept :] = [number] * len(text.added)
    return commits
