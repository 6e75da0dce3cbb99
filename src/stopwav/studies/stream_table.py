"""The streams of an engine by column: everything that metrics, charts and verdicts need of them, and nothing else.

A corpus may have a hundred thousand utterances. Their traces and texts do not fit in memory as objects; as columns they
do, and a metric over all of them takes a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats, Integers
from stopwav.studies.chunk_columns import Chunks
from stopwav.studies.column_file import FloatColumn, joined_columns
from stopwav.studies.stream_facts import StreamFacts, TextFacts
from stopwav.studies.utterance_table import UtteranceTable

Flags = NDArray[np.bool_]

# Streams whose words are counted or added up at a time.
_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class PartSums:
    """A part of the latency of words: its sum over the words of each stream that were shown, and that were stable."""

    shown: Floats
    stable: Floats
    # The least value of any word that was shown.
    least: float


@dataclass(frozen=True, eq=False)
class Words:
    """The reference words of all streams: their ends, when they were shown and when they were stable, NaN if never.

    A value of each word of a corpus takes tens of megabytes: each is made when it is asked for.
    """

    utterances: UtteranceTable
    # The utterance of each stream, and how many words it has.
    utterance: Integers
    sizes: Integers
    shown_parts: Sequence[FloatColumn]
    stable_parts: Sequence[FloatColumn]
    # The parts of their latency, by stream.
    parts: Mapping[str, PartSums]

    @property
    def shown_s(self) -> Floats:
        """When each word was shown."""
        return joined_columns(self.shown_parts)

    @property
    def stable_s(self) -> Floats:
        """When each word was stable."""
        return joined_columns(self.stable_parts)

    @property
    def end_s(self) -> Floats:
        """The end of each word."""
        return self.utterances.ends_of(self.utterance) if self.sizes.any() else np.zeros(0)

    @property
    def stream(self) -> Integers:
        """The stream of each word."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @property
    def shown(self) -> Flags:
        """Whether a word was shown."""
        return np.isfinite(self.shown_s)

    @property
    def stable(self) -> Flags:
        """Whether a word was shown and stayed."""
        return np.isfinite(self.stable_s)

    @property
    def latency_s(self) -> Floats:
        """From the end of each word to its first correct appearance."""
        return self._from_end(self.shown_s)

    @property
    def committed_s(self) -> Floats:
        """From the end of each word to the moment after which it never changed."""
        return self._from_end(self.stable_s)

    @property
    def stabilisation_s(self) -> Floats:
        """From the first correct appearance of each word to the moment after which it never changed."""
        return self.stable_s - self.shown_s

    def _from_end(self, moments_s: Floats) -> Floats:
        end_s = self.end_s
        return np.subtract(moments_s, end_s, out=end_s)

    def count(self, chosen: Flags) -> Integers:
        """Return how many of the chosen words each stream has."""
        counts = [np.bincount(streams[own], minlength=size) for streams, own, size in self._blocks(chosen)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *counts])

    def sum_by_stream(self, values: Floats, chosen: Flags) -> Floats:
        """Return the sum over the chosen words of each stream, from a value of each word."""
        sums, first = [np.zeros(0)], 0
        for streams, own, size in self._blocks(chosen):
            sums.append(np.bincount(streams[own], values[first : first + own.size][own], size).astype(float))
            first += own.size
        return np.concatenate(sums)

    def _blocks(self, chosen: Flags) -> Iterator[tuple[Integers, Flags, int]]:
        """Yield some streams at a time: the stream of each of their words, which words are chosen, and their number.

        The streams of all words of a corpus take as much memory as a metric of them.
        """
        first = 0
        for start in range(0, self.sizes.size, _AT_ONCE):
            sizes = self.sizes[start : start + _AT_ONCE]
            streams = np.repeat(np.arange(sizes.size), sizes)
            yield streams, chosen[first : first + streams.size], sizes.size
            first += streams.size


@dataclass(frozen=True, eq=False)
class StreamTable:
    """The streams of one engine that completed without a failure."""

    utterances: UtteranceTable
    # One entry per stream; the utterance is a position in `utterances`.
    utterance: Integers
    round: Integers
    audio_s: Floats
    # The time that each stream was computed, its end included.
    service_s: Floats
    # Chunk and look-ahead of the first stream; None where there is none.
    algorithm_s: tuple[float, float] | None
    # Half of the round trip of each stream behind a protocol, NaN where it is not known; None of streams in a process.
    network_s: Floats | None
    # A row per stream, a column per field of StreamFacts.
    facts: NDArray[np.float64]
    texts: Sequence[TextFacts]
    chunks: Chunks
    words: Words

    def __len__(self) -> int:
        return len(self.utterance)

    def fact(self, name: str) -> Floats:
        """Return a fact of each stream by the name of its field, NaN where it has none."""
        return self.facts[:, StreamFacts._fields.index(name)]

    @property
    def transcribed(self) -> Flags:
        """Whether the utterance of each stream has a transcript."""
        return self.utterances.transcribed[self.utterance]

    def without_words(self) -> StreamTable:
        """Return the table without words: those that random weights happened to write were not waited for."""
        none = np.zeros(len(self))
        parts = dict.fromkeys(self.words.parts, PartSums(none, none, 0.0))
        sizes = np.zeros(len(self), dtype=np.int64)
        return replace(self, words=Words(self.utterances, self.utterance, sizes, (), (), parts))
