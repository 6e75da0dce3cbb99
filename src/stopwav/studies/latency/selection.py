"""The utterances of a run: all of a corpus where the plan is fixed, else as many as its budget has time to repeat."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stopwav.engines.ctc_aligner import make_aligner
from stopwav.speech.align import align_corpus
from stopwav.speech.audio_file import duration_s
from stopwav.speech.corpus import load_corpus
from stopwav.speech.utterance import Corpus, Utterance
from stopwav.studies.budget import Budget, time_text
from stopwav.studies.forecast import ASSUMED_RTF
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.streams import OpenedEngine

# The rounds that a budget should have time for: of one engine some more than intervals need, and of several as many as
# decide a difference of a tenth where rounds differ by 3 %. More rounds leave fewer utterances, whose differences make
# most intervals as wide as they are.
ROUNDS_OF_ONE, ROUNDS_OF_SEVERAL = 4, 5
# Engines are slower on some utterances, and on a machine that is busy later.
SLOWER = 1.2
# Of the budget, for the streams of the first sweep where loading took its whole quarter.
LEAST_SHARE = 0.05
# Intervals are over utterances, and that of a median needs 6 of them. For these, too long ones are passed over.
FEWEST_UTTERANCES = 6
# Utterances whose length is looked up before those too long for the budget are given up.
MOST_LOOKED_AT = 200
# Utterances that are aligned between two looks at the clock, at most.
MOST_AT_ONCE = 16
# No utterance is cut to less than this: few engines write a word sooner.
SHORTEST_CUT_S = 1.0


@dataclass(frozen=True)
class StreamCost:
    """What one round costs: seconds per second of audio that is streamed, and of the longest one for memory."""

    per_audio_s: float
    per_longest_s: float
    # Loading and warming up.
    fixed_s: float

    def seconds(self, lengths_s: Sequence[float]) -> float:
        """Return the time of the streams of these lengths in one round, and of the memory pass."""
        return SLOWER * (self.per_audio_s * sum(lengths_s) + self.per_longest_s * max(lengths_s, default=0.0))


def stream_cost(spec: LatencySpec, engines: Iterable[OpenedEngine]) -> StreamCost:
    """Return the cost of a round of these engines; fed by the clock, a stream takes as long as its audio at least."""
    opened = list(engines)
    rtfs = [ASSUMED_RTF if engine.rtf is None else engine.rtf for engine in opened]
    paced = rtfs if spec.pace == "virtual" else [max(1.0, rtf) for rtf in rtfs]
    # Several at a time through a server.
    return StreamCost(sum(paced) / spec.streams, sum(rtfs), sum(engine.seconds for engine in opened))


def draw(spec: LatencySpec) -> tuple[Corpus, str]:
    """Return the corpus in an order drawn by seed, cut to the limit, and the digest of all of it."""
    words = None if spec.words is None else Path(spec.words)
    corpus = load_corpus(spec.corpus, words, spec.language, spec.report)
    # Drawn over the whole corpus: the first N of a sorted one are all alike.
    drawn = list(corpus.utterances)
    random.Random(spec.seed).shuffle(drawn)
    return replace(corpus, utterances=tuple(drawn[: spec.limit])), corpus.digest


def aligned(spec: LatencySpec, corpus: Corpus) -> Corpus:
    """Return the corpus with the times of its words, where they can be found."""
    return align_corpus(corpus, partial(spec.report, "aligning words"), make_aligner(spec.aligner))


def choose_utterances(spec: LatencySpec, drawn: Corpus, cost: StreamCost, budget: Budget) -> Corpus:
    """Return the first utterances of a drawn corpus that a round has time for, aligned, and say so where not all are.

    One that is too long for that is passed over until a few are chosen. Where all are too long, the shortest is cut.
    """
    rounds = ROUNDS_OF_ONE if len(spec.engines) == 1 else ROUNDS_OF_SEVERAL
    sweep_s = max(budget.sweep_left_s, LEAST_SHARE * budget.total_s)
    # Where loading takes most of such a round, the larger part of what is left of the first sweep.
    streams_s = min(sweep_s, max(budget.total_s / rounds - cost.fixed_s, 0.75 * sweep_s))
    chosen = _Chosen(replace(drawn, utterances=()), cost, budget, streams_s, budget.spent_s + sweep_s)
    batch: list[Utterance] = []
    for position, utterance in enumerate(drawn.utterances):
        fits = chosen.fits([*batch, utterance])
        enough = len(chosen.corpus.utterances) + len(batch) >= FEWEST_UTTERANCES
        if not fits and (enough or position >= MOST_LOOKED_AT):
            break
        if fits:
            batch.append(utterance)
        # One, then twice as many as there are: how long aligning takes is known from those before.
        if len(batch) >= min(MOST_AT_ONCE, len(chosen.corpus.utterances) + 1):
            chosen.align(spec, batch)
            batch = []
    chosen.align(spec, [utterance for utterance in batch if chosen.fits([utterance])])
    if not chosen.corpus.utterances:
        looked_at = drawn.utterances[:MOST_LOOKED_AT]
        chosen.align(spec, [cut(min(looked_at, key=duration_s), max(SHORTEST_CUT_S, chosen.longest_s))])
    _say(spec, drawn, chosen.corpus, budget)
    return chosen.corpus


class _Chosen:
    """The utterances that are chosen so far, and the time that is left for more."""

    def __init__(self, corpus: Corpus, cost: StreamCost, budget: Budget, streams_s: float, end_s: float) -> None:
        self.corpus = corpus
        # The streams of a round may take `streams_s`; the first sweep ends when `end_s` of the budget are spent.
        self._cost, self._budget, self._streams_s, self._end_s = cost, budget, streams_s, end_s
        self._lengths_s: list[float] = []
        # Seconds of aligning, and of the audio that was aligned.
        self._aligning_s = self._aligned_s = 0.0

    @property
    def longest_s(self) -> float:
        """How long a single utterance may be."""
        return self._streams_s / (SLOWER * (self._cost.per_audio_s + self._cost.per_longest_s) or 1.0)

    def fits(self, more: Sequence[Utterance]) -> bool:
        """Whether these fit besides those that are chosen."""
        lengths_s = [duration_s(utterance) for utterance in more]
        untimed_s = sum(s for s, utterance in zip(lengths_s, more, strict=True) if _needs_alignment(utterance))
        aligning_s = untimed_s * self._aligning_s / self._aligned_s if self._aligned_s else 0.0
        streams_s = self._cost.seconds([*self._lengths_s, *lengths_s])
        return streams_s <= self._streams_s and streams_s + aligning_s <= self._end_s - self._budget.spent_s

    def align(self, spec: LatencySpec, more: Sequence[Utterance]) -> None:
        """Add utterances, with the times of their words."""
        start_s = self._budget.spent_s
        added = aligned(spec, replace(self.corpus, utterances=tuple(more)))
        self.corpus = replace(added, utterances=(*self.corpus.utterances, *added.utterances))
        self._lengths_s += map(duration_s, more)
        if any(map(_needs_alignment, more)):
            self._aligning_s += self._budget.spent_s - start_s
            self._aligned_s += sum(duration_s(utterance) for utterance in more if _needs_alignment(utterance))


def cut(utterance: Utterance, seconds: float) -> Utterance:
    """Return the beginning of an utterance; its text is that of the words before the cut, where their times are known.

    Without word times there is no telling what of the text is in it: the cut one has no transcript.
    """
    if duration_s(utterance) <= seconds:
        return utterance
    words = tuple(word for word in utterance.words if word.end_s <= seconds)
    text = " ".join(word.text for word in words) if words else None
    return replace(utterance, end_s=utterance.start_s + seconds, words=words, text=text)


def _needs_alignment(utterance: Utterance) -> bool:
    return bool(utterance.text) and not utterance.words


def _say(spec: LatencySpec, drawn: Corpus, chosen: Corpus, budget: Budget) -> None:
    count, total = len(chosen.utterances), len(drawn.utterances)
    if count == total and chosen.utterances[0].end_s == drawn.utterances[0].end_s:
        return
    audio_s = sum(map(duration_s, chosen.utterances))
    spec.say(
        f"{count} of {total} utterances, {audio_s:.0f} s of audio: as many as a budget of {time_text(budget.total_s)} "
        "has time to repeat; a larger --budget takes more, --thorough all"
    )
