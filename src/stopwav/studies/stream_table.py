"""The streams of an engine by column: everything that metrics, charts and verdicts need of them, and nothing else.

A corpus may have a hundred thousand utterances. Their traces and texts do not fit in memory as objects; as columns they
do, and a metric over all of them takes a moment.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats, Integers
from stopwav.speech.stored_trace import TraceLists, find_fault
from stopwav.speech.utterance import Utterance
from stopwav.speech.waterfall import earliest_chunk, remote_waterfalls, waterfalls
from stopwav.studies.stream_facts import StreamFacts, TextFacts, stream_facts, text_facts

Flags = NDArray[np.bool_]
# Executions of stages that are added up at a time: some megabytes.
_MOST_SPANS = 300_000


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of all streams, one after the other; that which ended a stream is the last of it."""

    stream: Integers
    due_s: Floats
    start_s: Floats
    done_s: Floats
    # Seconds by stage, of the stages that chunks with audio have, and `other`; in the order in which they occur.
    stages: Mapping[str, Floats]

    @cached_property
    def with_audio(self) -> Flags:
        """Whether a chunk has audio: all but the last of each stream."""
        return np.append(self.stream[1:] == self.stream[:-1], False) if self.stream.size else self.stream > 0


@dataclass(frozen=True, eq=False)
class Words:
    """The reference words of all streams: their ends, when they were shown and when they became stable, NaN if never.

    The parts of their latency are those of the words that were shown, and 0 for the others.
    """

    stream: Integers
    end_s: Floats
    shown_s: Floats
    stable_s: Floats
    parts: Mapping[str, Floats]

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
        return self.shown_s - self.end_s

    @property
    def committed_s(self) -> Floats:
        """From the end of each word to the moment after which it never changed."""
        return self.stable_s - self.end_s


@dataclass(frozen=True, eq=False)
class StreamTable:
    """The streams of one engine that completed without a failure."""

    utterances: Sequence[Utterance]
    # One entry per stream; the utterance is a position in `utterances`.
    utterance: Integers
    round: Integers
    audio_s: Floats
    # Chunk and look-ahead of the first stream; None where there is none.
    algorithm_s: tuple[float, float] | None
    # Half of the round trip of each stream behind a protocol, NaN where it is not known; None of streams in a process.
    network_s: Floats | None
    facts: Sequence[StreamFacts]
    texts: Sequence[TextFacts]
    chunks: Chunks
    words: Words

    def __len__(self) -> int:
        return len(self.utterance)

    def sum_by_stream(self, values: Floats, streams: Integers) -> Floats:
        """Return the sum of the values of each stream."""
        return np.bincount(streams, values, minlength=len(self)).astype(float)

    @cached_property
    def service_s(self) -> Floats:
        """The time that each stream was computed, its end included."""
        return self.sum_by_stream(self.chunks.done_s - self.chunks.start_s, self.chunks.stream)

    @cached_property
    def word_count(self) -> Integers:
        """The reference words with times of each stream."""
        return np.bincount(self.words.stream, minlength=len(self))

    def without_words(self) -> StreamTable:
        """Return the table without words: those that random weights happened to write were not waited for."""
        nothing = np.zeros(0)
        none = Words(np.zeros(0, dtype=np.int64), nothing, nothing, nothing, dict.fromkeys(self.words.parts, nothing))
        return replace(self, words=none)


# By hashes of utterance and texts. The rounds of an engine mostly have the same texts, and so do two runs of it; to
# find out what texts say is most of the work.
_TEXTS: WeakValueDictionary[tuple[int, int], TextFacts] = WeakValueDictionary()


class StreamFaultError(ValueError):
    """A stream that cannot have happened: its place among those that were added, and what is wrong with it."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


@dataclass
class StreamTableBuilder:
    """Takes the streams of one engine one by one, and keeps their columns."""

    utterances: Sequence[Utterance]
    # A number for each utterance: its transcript and words.
    hashes: Sequence[int]
    utterance: array[int] = field(default_factory=lambda: array("q"))
    round: array[int] = field(default_factory=lambda: array("q"))
    audio_s: array[float] = field(default_factory=lambda: array("d"))
    algorithm_s: tuple[float, float] | None = None
    facts: list[StreamFacts] = field(default_factory=list)
    texts: list[TextFacts] = field(default_factory=list)
    lengths: array[int] = field(default_factory=lambda: array("q"))
    # due, start, done
    times: tuple[array[float], ...] = field(default_factory=lambda: tuple(array("d") for _ in range(3)))
    # Seconds of each chunk by stage, and the executions that are not added up yet: path, chunk and duration.
    stages: dict[str, array[float]] = field(default_factory=dict)
    spans: tuple[array[Any], ...] = field(default_factory=lambda: (array("q"), array("q"), array("d")))
    order: dict[str, None] = field(default_factory=dict)
    # Half of the round trip of each stream behind a protocol.
    network_s: array[float] = field(default_factory=lambda: array("d"))
    # Of each reference word: the stream, the chunks that could show it first and that did, or -1; its end, when it was
    # shown and when it became stable, or NaN, the look-ahead, and the queue that a server reports.
    word_stream: array[int] = field(default_factory=lambda: array("q"))
    word_chunks: tuple[array[int], ...] = field(default_factory=lambda: tuple(array("q") for _ in range(2)))
    word_s: tuple[array[float], ...] = field(default_factory=lambda: tuple(array("d") for _ in range(5)))

    def add(self, lists: TraceLists, position: int, index: int) -> None:
        """Add a stream: its trace, the position of its utterance, and its round."""
        if not lists.due_s:
            raise ValueError("it has no chunks")
        utterance = self.utterances[position]
        key = (self.hashes[position], hash((tuple(lists.due_s), lists.texts)))
        texts = _TEXTS.get(key)
        if texts is None:
            texts = _TEXTS[key] = text_facts(lists, utterance)
        self._add_words(lists, utterance, texts)
        self._add_chunks(lists)
        self.utterance.append(position)
        self.round.append(index)
        self.audio_s.append(lists.audio_s)
        self.algorithm_s = self.algorithm_s or (lists.chunk_s, lists.lookahead_s)
        if lists.remote is not None:
            self.network_s.append(np.nan if lists.remote.network_s is None else lists.remote.network_s)
        self.texts.append(texts)
        self.facts.append(stream_facts(lists, utterance, texts))

    def _add_words(self, lists: TraceLists, utterance: Utterance, texts: TextFacts) -> None:
        words, due_s, start = utterance.words, lists.due_s, len(self.times[0])
        self.word_stream.extend([len(self.utterance)] * len(words))
        earliest = [earliest_chunk(due_s, word.end_s + lists.lookahead_s) for word in words]
        shown = [-1 if number < 0 else lists.texts[number].chunk for number in texts.shown_by]
        for column, own in zip(self.word_chunks, (earliest, shown), strict=True):
            column.extend([-1 if chunk < 0 else start + chunk for chunk in own])
        reported_s = () if lists.remote is None else lists.remote.queue_s
        columns = (
            [word.end_s for word in words],
            [np.nan if number < 0 else lists.text_s[number] for number in texts.shown_by],
            [np.nan if number < 0 else lists.text_s[number] for number in texts.stable_by],
            [lists.lookahead_s] * len(words),
            [reported_s[number] if reported_s and number >= 0 else 0.0 for number in texts.shown_by],
        )
        for times, own_s in zip(self.word_s, columns, strict=True):
            times.extend(own_s)

    def _add_chunks(self, lists: TraceLists) -> None:
        start = len(self.times[0])
        self.lengths.append(len(lists.due_s))
        for column, own in zip(self.times, (lists.due_s, lists.start_s, lists.done_s), strict=True):
            column.extend(own)
        self._note_order(lists)
        for path in lists.paths:
            self.stages.setdefault(path, array("d"))
        numbers = {path: number for number, path in enumerate(self.stages)}
        own_numbers = [numbers[path] for path in lists.paths]
        paths, chunks, durations_s = self.spans
        paths.extend([own_numbers[number] for number in lists.path])
        chunks.extend([start + index for index in lists.chunk])
        durations_s.extend(lists.stage_duration_s)
        if len(paths) > _MOST_SPANS:
            self._add_up()

    def _add_up(self) -> None:
        """Add the durations of executions up, by stage and chunk."""
        done, total = min((len(column) for column in self.stages.values()), default=0), len(self.times[0])
        path, chunk, duration_s = (np.array(column) for column in self.spans)
        for number, column in enumerate(self.stages.values()):
            column.extend(bytes(8 * (done - len(column))))
            own = path == number
            seconds = np.bincount(chunk[own] - done, duration_s[own], total - done).astype(float)
            column.frombytes(seconds.tobytes())
        for span in self.spans:
            del span[:]

    def _note_order(self, lists: TraceLists) -> None:
        """Note the stages of chunks with audio in the order in which they occur; `other` is in every chunk."""
        if len(lists.due_s) < 2 or self.order.keys() >= {*lists.paths, "other"}:
            return
        first: dict[str, int] = {}
        for number, chunk in zip(lists.path, lists.chunk, strict=True):
            first.setdefault(lists.paths[number], chunk)
        early = [path for path, chunk in first.items() if chunk == 0]
        later = [path for path, chunk in first.items() if 0 < chunk < len(lists.due_s) - 1]
        self.order.update(dict.fromkeys([*early, "other", *later]))

    def table(self) -> StreamTable:
        """Return the table of all streams; raise StreamFaultError for one that cannot have happened."""
        self._add_up()
        due_s, start_s, done_s = (np.frombuffer(column, dtype=float) for column in self.times)
        fault = find_fault(self.lengths, due_s, start_s, done_s)
        if fault is not None:
            raise StreamFaultError(*fault)
        stages = {path: np.frombuffer(column, dtype=float) for path, column in self.stages.items()}
        stages["other"] = done_s - start_s - sum(own for path, own in stages.items() if "/" not in path)
        streams = np.repeat(np.arange(len(self.lengths), dtype=np.int64), np.array(self.lengths, dtype=np.int64))
        chunks = Chunks(streams, due_s, start_s, done_s, {path: stages[path] for path in self.order})
        return StreamTable(
            self.utterances,
            np.array(self.utterance, dtype=np.int64),
            np.array(self.round, dtype=np.int64),
            np.array(self.audio_s, dtype=float),
            self.algorithm_s,
            np.array(self.network_s, dtype=float) if self.network_s else None,
            self.facts,
            self.texts,
            chunks,
            self._words(chunks, stages),
        )

    def _words(self, chunks: Chunks, stages: Mapping[str, Floats]) -> Words:
        earliest, shown_by = (np.array(column, dtype=np.int64) for column in self.word_chunks)
        end_s, shown_s, stable_s, lookahead_s, reported_s = (np.array(column, dtype=float) for column in self.word_s)
        stream = np.array(self.word_stream, dtype=np.int64)
        shown = shown_by >= 0
        if self.network_s:
            network_s = np.nan_to_num(np.array(self.network_s, dtype=float))[stream]
            times = chunks.due_s, chunks.start_s, end_s, lookahead_s, earliest
            parts = remote_waterfalls(*times, np.where(shown, shown_s, end_s), network_s, reported_s)
        else:
            # A word that was not shown counts as shown by the chunk that could have, and has no parts.
            shown_or_could = np.where(shown, shown_by, earliest)
            of_chunks = chunks.due_s, chunks.start_s, chunks.done_s
            parts = waterfalls(*of_chunks, stages, end_s, lookahead_s, earliest, shown_or_could)
        own_parts = {part: np.where(shown, seconds, 0.0) for part, seconds in parts.items()}
        return Words(stream, end_s, shown_s, stable_s, own_parts)
