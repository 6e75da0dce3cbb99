"""Every streaming metric, as pure functions of a stream's trace and its reference word times.

Definitions: docs/concepts/latency.md. Times are seconds of stream time; 0 is when the first sample is spoken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stopwav.speech.events import Chunk, Trace
from stopwav.speech.text import normalise
from stopwav.speech.utterance import Word
from stopwav.speech.wer import Matcher, common_prefix

# The stages that a waterfall names, in the order of a chunk's work; other stages of an engine, and time outside of all
# stages, are `other`.
STAGES = ("features", "copy", "inference", "post")
# Why a listener waits for a word, in the order in which the causes occur.
WATERFALL = ("buffering", "lookahead", "emission", "queue", *STAGES, "other")

# A recogniser that decodes every half second has a queue in between and none right after. A backlog is the queue at its
# lowest, so it is measured in windows longer than any such period in use.
BACKLOG_WINDOW_S = 1.0


@dataclass(frozen=True)
class ShownText:
    """A text shown to the listener: when, by which chunk, and its normalised words."""

    time_s: float
    chunk: int
    words: tuple[str, ...]


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


def stage_seconds(chunk: Chunk) -> dict[str, float]:
    """Return the seconds per stage path of a chunk, nested ones included, and `other` for time outside all stages."""
    totals: dict[str, float] = {}
    for stage in chunk.stages:
        totals[stage.path] = totals.get(stage.path, 0.0) + stage.duration_s
    totals["other"] = chunk.service_s - sum(seconds for path, seconds in totals.items() if "/" not in path)
    return totals


def reconstructed_lags(trace: Trace) -> list[float]:
    """Return the chunk lags that virtual time gives for the service times of a trace, however it was paced.

    On a trace in real time this checks the reconstruction: the same work, with the waiting computed.
    """
    lags, done_s = [], 0.0
    for chunk in trace.chunks[:-1]:
        done_s = max(chunk.due_s, done_s) + chunk.service_s
        lags.append(done_s - chunk.due_s)
    return lags


def shown_texts(trace: Trace) -> list[ShownText]:
    """Return the texts a listener saw, in order, each change once."""
    texts: list[ShownText] = []
    for index, chunk in enumerate(trace.chunks):
        for text in chunk.hypotheses:
            words = tuple(normalise(text))
            if words != (texts[-1].words if texts else ()):
                texts.append(ShownText(chunk.done_s, index, words))
    return texts


def word_delays(trace: Trace, words: Sequence[Word], texts: Sequence[ShownText]) -> list[WordDelay]:
    """Return the delay of each reference word, with `None` where it was never in the hypothesis."""
    matcher = Matcher([word.text for word in words])
    first: dict[int, ShownText] = {}
    stable: dict[int, float] = {}
    for text in texts:
        spoken = _words_begun(trace, text.chunk, words)
        matched = matcher.matches(text.words, spoken)
        for index in matched:
            first.setdefault(index, text)
            stable.setdefault(index, text.time_s)
        for index in stable.keys() - matched:
            del stable[index]
    return [_word_delay(trace, word, first.get(index), stable.get(index)) for index, word in enumerate(words)]


def _words_begun(trace: Trace, chunk: int, words: Sequence[Word]) -> int:
    if trace.chunks[chunk] is trace.finish:
        return len(words)
    heard_s = trace.chunks[chunk].due_s
    return sum(word.start_s < heard_s for word in words)


def _word_delay(trace: Trace, word: Word, shown: ShownText | None, stable_s: float | None) -> WordDelay:
    if shown is None:
        return WordDelay(word, None, None, None)
    return WordDelay(word, shown.time_s, stable_s, waterfall(trace, word, shown.chunk))


def waterfall(trace: Trace, word: Word, chunk: int) -> dict[str, float]:
    """Return the parts of a word's latency, which add up to it, for a word first shown by the given chunk.

    Buffering and look-ahead last until the first chunk that could show the word; emission is the audio that the model
    waited for beyond it (negative where it was quicker); the rest is the queue and work of the chunk that showed it.
    """
    earliest = next((c for c in trace.chunks if c.due_s >= word.end_s + trace.lookahead_s), trace.finish)
    shown_by = trace.chunks[chunk]
    # Near the end there may be less audio left than the look-ahead needs.
    lookahead_s = max(0.0, min(trace.lookahead_s, earliest.due_s - word.end_s))
    stages = stage_seconds(shown_by)
    parts = {
        "buffering": earliest.due_s - word.end_s - lookahead_s,
        "lookahead": lookahead_s,
        "emission": shown_by.due_s - earliest.due_s,
        "queue": shown_by.queue_s,
        **{name: stages.get(name, 0.0) for name in STAGES},
    }
    parts["other"] = shown_by.service_s - sum(parts[name] for name in STAGES)
    return parts


def first_word_latency(words: Sequence[Word], texts: Sequence[ShownText]) -> tuple[float | None, float | None]:
    """Return the time to first partial from the start of the first word, and from the start of the stream."""
    first = next((text.time_s for text in texts if text.words), None)
    if first is None:
        return None, None
    return (first - words[0].start_s if words else None), first


def final_latency(trace: Trace, words: Sequence[Word]) -> tuple[float | None, float]:
    """Return the latency of the final text from the end of the last word, and from the end of the stream."""
    done_s = trace.finish.done_s
    return (done_s - words[-1].end_s if words else None), done_s - trace.finish.due_s


def unstable_words(texts: Sequence[ShownText]) -> int:
    """Count the words shown in some partial and later changed or removed."""
    changed = 0
    for before, after in pairwise(texts):
        shared = common_prefix(before.words, after.words)
        tail = before.words[shared:]
        if tail:
            changed += len(tail) - len(Matcher(tail).matches(after.words[shared:]))
    return changed


def erased_words(texts: Sequence[ShownText]) -> int:
    """Count the words an append-only display would have to erase: at each change, all from the first difference on."""
    return sum(len(before.words) - common_prefix(before.words, after.words) for before, after in pairwise(texts))


def committing_texts(texts: Sequence[ShownText]) -> list[ShownText]:
    """Return for each word of the final text the text since which it and all words before it never changed."""
    if not texts:
        return []
    final = texts[-1].words
    commits: list[ShownText] = [texts[-1]] * len(final)
    kept = len(final)
    for text in reversed(texts):
        kept = min(kept, common_prefix(text.words, final))
        commits[:kept] = [text] * kept
    return commits


def backlog_slope(trace: Trace) -> float | None:
    """Return the seconds of backlog gained per second of audio, from the queue's low points; `None` if too short."""
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
