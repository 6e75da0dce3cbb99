"""Every streaming metric, as pure functions of a stream's trace and its reference word times.

Definitions: docs/concepts/latency.md. Times are seconds of stream time; 0 is when the first sample is spoken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stopwav.speech.corpus import Word
from stopwav.speech.events import Chunk, Trace
from stopwav.speech.matching import Matcher, common_prefix
from stopwav.speech.text import normalise

# The stages a waterfall names, in the order in which a chunk passes them; whatever else an engine marks, and what no
# stage claims, is `other`.
STAGES = ("features", "copy", "inference", "post")
# Why a listener waits for a word, in the order in which it happens.
WATERFALL = ("buffering", "lookahead", "emission", "queue", *STAGES, "other")

# A recogniser that decodes every half second has a queue in between and none right after: a backlog is what is left
# when the queue is lowest, so it is looked for in windows longer than any such period in use.
BACKLOG_WINDOW_S = 1.0


@dataclass(frozen=True)
class Shown:
    """A text that became visible: when, by which chunk, and its normalised words."""

    time_s: float
    chunk: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class WordDelay:
    """One reference word: when it first stood in the hypothesis, when it stood for good, and why it took so long."""

    word: Word
    shown_s: float | None
    stable_s: float | None
    waterfall: dict[str, float] | None

    @property
    def latency_s(self) -> float | None:
        """From the end of the word to its first correct appearance (UPL); negative where it came before the end."""
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
    """Longest and mean wait that the algorithm imposes on an infinitely fast machine."""
    return chunk_s + lookahead_s, chunk_s / 2 + lookahead_s


def stage_seconds(chunk: Chunk) -> dict[str, float]:
    """Seconds per stage path of a chunk, nested ones beside those that hold them, and `other` for what none claims."""
    totals: dict[str, float] = {}
    for stage in chunk.stages:
        totals[stage.path] = totals.get(stage.path, 0.0) + stage.duration_s
    totals["other"] = chunk.service_s - sum(seconds for path, seconds in totals.items() if "/" not in path)
    return totals


def reconstructed_lags(trace: Trace) -> list[float]:
    """The chunk lags that virtual time gives for the service times of a trace, whatever it was paced by.

    On a trace that was fed by the clock this is the check of the reconstruction: the same work, the waiting computed.
    """
    lags, done_s = [], 0.0
    for chunk in trace.chunks[:-1]:
        done_s = max(chunk.due_s, done_s) + chunk.service_s
        lags.append(done_s - chunk.due_s)
    return lags


def shown_texts(trace: Trace) -> list[Shown]:
    """The texts a listener saw, in order, each change once."""
    texts: list[Shown] = []
    for index, chunk in enumerate(trace.chunks):
        for text in chunk.hypotheses:
            words = tuple(normalise(text))
            if words != (texts[-1].words if texts else ()):
                texts.append(Shown(chunk.done_s, index, words))
    return texts


def word_delays(trace: Trace, words: Sequence[Word], texts: Sequence[Shown]) -> list[WordDelay]:
    """The delay of each reference word, `None` where it never stood in the hypothesis."""
    matcher = Matcher([word.text for word in words])
    first: dict[int, Shown] = {}
    stable: dict[int, float] = {}
    for text in texts:
        spoken = _words_begun(trace, text.chunk, words)
        standing = matcher.matches(text.words, spoken)
        for index in standing:
            first.setdefault(index, text)
            stable.setdefault(index, text.time_s)
        for index in stable.keys() - standing:
            del stable[index]
    return [_word_delay(trace, word, first.get(index), stable.get(index)) for index, word in enumerate(words)]


def _words_begun(trace: Trace, chunk: int, words: Sequence[Word]) -> int:
    if trace.chunks[chunk] is trace.finish:
        return len(words)
    heard_s = trace.chunks[chunk].due_s
    return sum(word.start_s < heard_s for word in words)


def _word_delay(trace: Trace, word: Word, shown: Shown | None, stable_s: float | None) -> WordDelay:
    if shown is None:
        return WordDelay(word, None, None, None)
    return WordDelay(word, shown.time_s, stable_s, waterfall(trace, word, shown.chunk))


def waterfall(trace: Trace, word: Word, chunk: int) -> dict[str, float]:
    """The parts of a word's latency, which add up to it, for a word shown by the given chunk.

    Buffering and look-ahead lead to the first chunk that could hold the word; emission is the audio that the model
    waited for beyond it (negative where it was quicker); the rest is that chunk's queue and work.
    """
    able = next((c for c in trace.chunks if c.due_s >= word.end_s + trace.lookahead_s), trace.finish)
    shower = trace.chunks[chunk]
    # Near the end of the audio there may be less of it left than the look-ahead asks for.
    lookahead_s = max(0.0, min(trace.lookahead_s, able.due_s - word.end_s))
    stages = stage_seconds(shower)
    parts = {
        "buffering": able.due_s - word.end_s - lookahead_s,
        "lookahead": lookahead_s,
        "emission": shower.due_s - able.due_s,
        "queue": shower.queue_s,
        **{name: stages.get(name, 0.0) for name in STAGES},
    }
    parts["other"] = shower.service_s - sum(parts[name] for name in STAGES)
    return parts


def first_word_latency(words: Sequence[Word], texts: Sequence[Shown]) -> tuple[float | None, float | None]:
    """First non-empty text after the start of the first word, and after the start of the stream."""
    first = next((text.time_s for text in texts if text.words), None)
    if first is None:
        return None, None
    return (first - words[0].start_s if words else None), first


def final_latency(trace: Trace, words: Sequence[Word]) -> tuple[float | None, float]:
    """Final text after the end of the last word, and after the end of the stream was signalled."""
    done_s = trace.finish.done_s
    return (done_s - words[-1].end_s if words else None), done_s - trace.finish.due_s


def unstable_words(texts: Sequence[Shown]) -> int:
    """Words shown in some partial and later changed or removed."""
    changed = 0
    for before, after in pairwise(texts):
        shared = common_prefix(before.words, after.words)
        tail = before.words[shared:]
        if tail:
            changed += len(tail) - len(Matcher(tail).matches(after.words[shared:]))
    return changed


def erased_words(texts: Sequence[Shown]) -> int:
    """Words a display that can only append would have had to erase: all after the first change, at each change."""
    return sum(len(before.words) - common_prefix(before.words, after.words) for before, after in pairwise(texts))


def commit_chunks(texts: Sequence[Shown]) -> list[Shown]:
    """For each word of the final text, the text from which on it and all before it stayed as they are."""
    if not texts:
        return []
    final = texts[-1].words
    commits: list[Shown] = [texts[-1]] * len(final)
    kept = len(final)
    for text in reversed(texts):
        kept = min(kept, common_prefix(text.words, final))
        commits[:kept] = [text] * kept
    return commits


def backlog_slope(trace: Trace) -> float | None:
    """Seconds of backlog gained per second of audio: the trend of the queue's low points; `None` for short streams."""
    lows: dict[int, Chunk] = {}
    for chunk in trace.chunks[:-1]:
        window = int(chunk.due_s / BACKLOG_WINDOW_S)
        if window not in lows or chunk.queue_s < lows[window].queue_s:
            lows[window] = chunk
    if len(lows) < 2:
        return None
    dues = [chunk.due_s for chunk in lows.values()]
    mean_due = sum(dues) / len(dues)
    mean_queue = sum(chunk.queue_s for chunk in lows.values()) / len(lows)
    covariance = sum((chunk.due_s - mean_due) * (chunk.queue_s - mean_queue) for chunk in lows.values())
    return covariance / sum((due - mean_due) ** 2 for due in dues)
