"""Every streaming metric, as pure functions of a stream's trace and its reference word times.

Definitions: docs/concepts/latency.md. Times are seconds of stream time; 0 is when the first sample is spoken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stopwav.speech.events import Floats, Integers, TextChange, Trace
from stopwav.speech.growing_text import GrowingText
from stopwav.speech.matching import Matcher, matches
from stopwav.speech.utterance import Word

# The stages that a waterfall names, in the order of a chunk's work; other stages of an engine, and time outside of all
# stages, are `other`.
STAGES = ("features", "copy", "inference", "post")
# Why a listener waits for a word, in the order in which the causes occur.
WATERFALL = ("buffering", "lookahead", "emission", "queue", *STAGES, "other")

# A recogniser that decodes every half second has a queue in between and none right after. A backlog is the queue at its
# lowest, so it is measured in windows longer than any such period in use.
BACKLOG_WINDOW_S = 1.0


class ShownText(NamedTuple):
    """A text shown to the listener: by which chunk, how many words of the text before it stay, and the words after."""

    chunk: int
    kept: int
    added: list[str]


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


def shown_texts(changes: Sequence[TextChange]) -> list[ShownText]:
    """Return the texts a listener saw, in order, each change once."""
    text = GrowingText()
    texts: list[ShownText] = []
    for chunk, kept, added in changes:
        count = len(text.words)
        same, new = text.change(kept, added)
        if new or same < count:
            texts.append(ShownText(chunk, same, new))
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
        stable_s = float(trace.done_s[texts[stable].chunk]) if stable >= 0 else None
        shown_by = texts[first].chunk
        delays.append(WordDelay(word, float(trace.done_s[shown_by]), stable_s, waterfall(trace, word, shown_by)))
    return delays


def waterfall(trace: Trace, word: Word, chunk: int) -> dict[str, float]:
    """Return the parts of a word's latency, which add up to it, for a word first shown by the given chunk."""
    end_s = np.array([word.end_s])
    earliest = np.array([earliest_chunk(trace.due_s.tolist(), word.end_s + trace.lookahead_s)])
    stages = {name: trace.stage_seconds[name] for name in STAGES if name in trace.stage_seconds}
    parts = waterfalls(
        trace.due_s, trace.start_s, trace.done_s, stages, end_s, trace.lookahead_s, earliest, np.array([chunk])
    )
    return {part: float(seconds[0]) for part, seconds in parts.items()}


def earliest_chunk(due_s: Sequence[float], needed_s: float) -> int:
    """Return the first chunk by which so much audio was heard, of chunks that are due then; at the end, the last."""
    return min(bisect_left(due_s, needed_s), len(due_s) - 1)


def waterfalls(
    due_s: Floats,
    start_s: Floats,
    done_s: Floats,
    stages: Mapping[str, Floats],
    end_s: Floats,
    lookahead_s: Floats | float,
    earliest: Integers,
    shown: Integers,
) -> dict[str, Floats]:
    """Return the parts of the latency of words, which add up to it: an array for each part, with a value per word.

    Times and stages are of chunks. Of each word are given its end, and the indexes of the earliest chunk that could
    show it and of the chunk that did. Buffering and look-ahead last until the earliest chunk; emission is the audio
    that the model waited for beyond it (negative where it was quicker); the rest is the queue and work of the chunk
    that showed the word.
    """
    # Near the end there may be less audio left than the look-ahead needs.
    ahead_s = np.maximum(0.0, np.minimum(lookahead_s, due_s[earliest] - end_s))
    parts = {
        "buffering": due_s[earliest] - end_s - ahead_s,
        "lookahead": ahead_s,
        "emission": due_s[shown] - due_s[earliest],
        "queue": start_s[shown] - due_s[shown],
        **{name: stages[name][shown] if name in stages else np.zeros(len(shown)) for name in STAGES},
    }
    parts["other"] = done_s[shown] - start_s[shown] - sum(parts[name] for name in STAGES)
    return parts


def first_shown_by(texts: Sequence[ShownText]) -> int:
    """Return the first chunk that showed a word, or -1."""
    return next((text.chunk for text in texts if text.kept or text.added), -1)


def first_word_latency(done_s: Sequence[float], words: Sequence[Word], chunk: int) -> tuple[float | None, float | None]:
    """Return the time to first partial from the start of the first word, and from the start of the stream.

    `done_s` is when each chunk is done, `chunk` the first that showed a word, or -1.
    """
    if chunk < 0:
        return None, None
    return (done_s[chunk] - words[0].start_s if words else None), done_s[chunk]


def final_latency(due_s: Sequence[float], done_s: Sequence[float], words: Sequence[Word]) -> tuple[float | None, float]:
    """Return the latency of the final text from the end of the last word, and from the end of the stream."""
    return (done_s[-1] - words[-1].end_s if words else None), done_s[-1] - due_s[-1]


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


def backlog_slope(due_s: Sequence[float], start_s: Sequence[float]) -> float | None:
    """Return the seconds of backlog gained per second of audio, from the queue's low points; `None` if too short.

    The times are those of the chunks, of which the last has no audio.
    """
    lows: dict[int, tuple[float, float]] = {}
    for due, start in zip(due_s[:-1], start_s[:-1], strict=True):
        window = int(due / BACKLOG_WINDOW_S)
        if window not in lows or start - due < lows[window][1]:
            lows[window] = (due, start - due)
    if len(lows) < 2:
        return None
    mean_due = sum(due for due, _ in lows.values()) / len(lows)
    mean_queue = sum(queue for _, queue in lows.values()) / len(lows)
    covariance = sum((due - mean_due) * (queue - mean_queue) for due, queue in lows.values())
    return covariance / sum((due - mean_due) ** 2 for due, _ in lows.values())


def average_lagging(delays_s: Sequence[float], audio_s: float, target_words: int) -> float | None:
    """Return AL, as simultaneous translation defines it: the mean lag up to the first word after all audio.

    The lag is that behind an ideal recogniser that spreads its words evenly over the audio, as many as the reference
    has. A delay is the audio heard (algorithmic) or the time passed (computation-aware) when a word was committed.
    """
    return _lagging(delays_s, audio_s, target_words)


def length_adaptive_average_lagging(delays_s: Sequence[float], audio_s: float, target_words: int) -> float | None:
    """Return LAAL: AL with as many ideal words as the longer of reference and hypothesis has."""
    return _lagging(delays_s, audio_s, max(target_words, len(delays_s)))


def differentiable_average_lagging(delays_s: Sequence[float], audio_s: float) -> float | None:
    """Return DAL: the mean lag over all words, each at least one ideal step after the word before."""
    if not delays_s or audio_s <= 0:
        return None
    step_s = audio_s / len(delays_s)
    total = previous = 0.0
    for index, delay in enumerate(delays_s):
        previous = delay if index == 0 else max(delay, previous + step_s)
        total += previous - index * step_s
    return total / len(delays_s)


def _lagging(delays_s: Sequence[float], audio_s: float, words: int) -> float | None:
    if not delays_s or audio_s <= 0 or words == 0:
        return None
    if delays_s[0] > audio_s:
        return delays_s[0]
    step_s = audio_s / words
    total = 0.0
    for index, delay in enumerate(delays_s):
        total += delay - index * step_s
        if delay >= audio_s:
            break
    return total / (index + 1)
