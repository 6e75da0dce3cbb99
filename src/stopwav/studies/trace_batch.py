"""Some streams that follow each other in a run, by column: checked, and turned into their part of a table."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats, Integers
from stopwav.speech.lagging import backlog_slopes, laggings
from stopwav.speech.stored_trace import TraceLists, find_fault
from stopwav.speech.waterfall import WATERFALL, remote_waterfalls, waterfalls
from stopwav.studies.chunk_columns import ChunkBlock, Times, chunk_block
from stopwav.studies.column_file import ColumnFile, FloatColumn, read_column
from stopwav.studies.stream_facts import TextFacts, times_of_texts
from stopwav.studies.stream_table import PartSums
from stopwav.studies.utterance_table import UtteranceTable

# Chunks of a batch: enough that NumPy does the work, and few enough for some megabytes.
MOST_CHUNKS = 50_000


class StreamFaultError(ValueError):
    """A stream that cannot have happened: its place among those that were added, and what is wrong with it."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class BatchColumns(NamedTuple):
    """What a table keeps of a batch."""

    chunks: ChunkBlock
    # The time that each stream was computed.
    service_s: Floats
    facts: NDArray[np.float64]
    # When each reference word was shown and became stable, NaN if never.
    shown_s: FloatColumn
    stable_s: FloatColumn
    parts: Mapping[str, PartSums]

    def stored(self, file: ColumnFile) -> BatchColumns:
        """Return the same with its longest columns in a file."""
        shown_s, stable_s = (file.put(read_column(column)) for column in (self.shown_s, self.stable_s))
        return self._replace(chunks=self.chunks.stored(file), shown_s=shown_s, stable_s=stable_s)


class _Places(NamedTuple):
    """The places of all streams of a batch: among its streams, its chunks and its texts; -1 for none."""

    # The stream of each reference word.
    word: Integers
    # The chunk of each text.
    chunks: Integers
    # The text that first showed each reference word, and since which it never changed; its earliest chunk.
    shown_by: Integers
    stable_by: Integers
    earliest: Integers
    # The text since which each word of a final text never changed, and how many of those a stream has.
    committed_by: Integers
    final_words: Integers


def _floats() -> array[float]:
    return array("d")


def _integers() -> array[int]:
    return array("q")


@dataclass
class TraceBatch:
    """Streams by column, as they are added."""

    utterances: UtteranceTable
    is_remote: bool
    texts: list[TextFacts] = field(default_factory=list)
    positions: array[int] = field(default_factory=_integers)
    audio_s: array[float] = field(default_factory=_floats)
    lookahead_s: array[float] = field(default_factory=_floats)
    sizes: array[int] = field(default_factory=_integers)
    due_s: array[float] = field(default_factory=_floats)
    start_s: array[float] = field(default_factory=_floats)
    done_s: array[float] = field(default_factory=_floats)
    # The first five facts of each stream.
    times: list[tuple[float | None, ...]] = field(default_factory=list)
    # The paths of each stream, and how many executions of stages it has; of each its path among them, chunk and times.
    paths: list[tuple[str, ...]] = field(default_factory=list)
    spans: array[int] = field(default_factory=_integers)
    path: array[int] = field(default_factory=_integers)
    chunk: array[int] = field(default_factory=_integers)
    stage_start_s: array[float] = field(default_factory=_floats)
    duration_s: array[float] = field(default_factory=_floats)
    # Of streams behind a protocol: when texts arrived, half of a round trip, and the server's own queue for each text.
    arrivals_s: array[float] = field(default_factory=_floats)
    network_s: array[float] = field(default_factory=_floats)
    reported_s: array[float] = field(default_factory=_floats)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def is_full(self) -> bool:
        """Whether it has as many chunks as are worked on at a time."""
        return len(self.due_s) >= MOST_CHUNKS

    def add(self, lists: TraceLists, texts: TextFacts, position: int) -> None:
        """Add a stream of the utterance at a position."""
        start_s = float(self.utterances.start_s[position]) if self.utterances.word_counts[position] else None
        self.times.append(times_of_texts(lists, texts, start_s, self.utterances.end_s(position)))
        self.texts.append(texts)
        self.positions.append(position)
        self.audio_s.append(lists.audio_s)
        self.lookahead_s.append(lists.lookahead_s)
        self.sizes.append(len(lists.due_s))
        self.paths.append(tuple(lists.paths))
        self.spans.append(len(lists.path))
        if lists.remote is not None:
            self.arrivals_s.extend(lists.arrivals_s or ())
            self.network_s.append(np.nan if lists.remote.network_s is None else lists.remote.network_s)
            self.reported_s.extend(lists.remote.queue_s or [0.0] * len(lists.texts))
        self.due_s.fromlist(lists.due_s)
        self.start_s.fromlist(lists.start_s)
        self.done_s.fromlist(lists.done_s)
        self.path.fromlist(lists.path)
        self.chunk.fromlist(lists.chunk)
        self.stage_start_s.fromlist(lists.stage_start_s)
        self.duration_s.fromlist(lists.stage_duration_s)

    def columns(self) -> BatchColumns:
        """Return what a table keeps of the streams; raise StreamFaultError for one that cannot have happened."""
        sizes = np.array(self.sizes, dtype=np.int64)
        times = Times(*(np.array(column, dtype=float) for column in (self.due_s, self.start_s, self.done_s)))
        fault = find_fault(self.sizes, *times)
        if fault is not None:
            raise StreamFaultError(*fault)
        stages, places = self._stage_seconds(sizes), self._places(sizes)
        text_s = np.array(self.arrivals_s, dtype=float) if self.is_remote else times.done_s[places.chunks]
        stream = np.repeat(np.arange(sizes.size), sizes)
        service_s = np.bincount(stream, times.done_s - times.start_s, sizes.size).astype(float)
        facts = self._facts(sizes, times, text_s, places)
        block = chunk_block(sizes, times, stages)
        return BatchColumns(block, service_s, facts, *self._words(times, stages, text_s, places))

    def _places(self, sizes: Integers) -> _Places:
        """The places of all streams, among the texts and chunks of the batch."""
        numbers = np.concatenate([np.frombuffer(t.numbers, dtype=t.numbers.typecode) for t in self.texts])
        texts, words = (np.array([getattr(t, name) for t in self.texts]) for name in ("texts", "reference_words"))
        counts = np.stack([texts, words, words, words, np.array([t.final_words for t in self.texts])])
        # Where each kind of number begins in each stream.
        begins = np.cumsum(counts.sum(axis=0)) - counts.sum(axis=0) + np.cumsum(counts, axis=0) - counts
        kinds = []
        for kind, own in enumerate(counts):
            before = np.cumsum(own) - own
            kinds.append(numbers[np.arange(int(own.sum())) + np.repeat(begins[kind] - before, own)].astype(np.int64))
        chunks, shown_by, stable_by, earliest, committed_by = kinds
        first_text, first_chunk = np.cumsum(texts) - texts, np.cumsum(sizes) - sizes
        word = np.repeat(np.arange(sizes.size), words)
        return _Places(
            word,
            np.repeat(first_chunk, texts) + chunks,
            np.where(shown_by < 0, -1, first_text[word] + shown_by),
            np.where(stable_by < 0, -1, first_text[word] + stable_by),
            first_chunk[word] + earliest,
            np.repeat(first_text, counts[4]) + committed_by,
            counts[4],
        )

    def stage_order(self, known: set[str]) -> list[str]:
        """Return the stages of chunks with audio that are not known yet in the order in which they occur, and `other`.

        The first chunk of a stream comes first, then `other`, which is in every chunk.
        """
        if {*chain.from_iterable(set(self.paths)), "other"} <= known:
            return []
        order: dict[str, None] = {}
        start = 0
        for names, size, count in zip(self.paths, self.sizes, self.spans, strict=True):
            own = slice(start, start + count)
            start += count
            if size < 2 or known | order.keys() >= {*names, "other"}:
                continue
            first: dict[str, int] = {}
            for number, chunk in zip(self.path[own], self.chunk[own], strict=True):
                first.setdefault(names[number], chunk)
            early = [path for path, chunk in first.items() if chunk == 0]
            later = [path for path, chunk in first.items() if 0 < chunk < size - 1]
            order.update(dict.fromkeys([*early, "other", *later]))
        return [path for path in order if path not in known]

    def _stage_seconds(self, sizes: Integers) -> dict[str, Floats]:
        """The seconds of each chunk by stage."""
        spans = np.array(self.spans, dtype=np.int64)
        stream = np.repeat(np.arange(spans.size), spans)
        path, chunk = np.array(self.path, dtype=np.int64), np.array(self.chunk, dtype=np.int64)
        duration_s, total = np.array(self.duration_s, dtype=float), int(sizes.sum())
        counts = np.array([len(names) for names in self.paths], dtype=np.int64)
        self._check_stages(stream, (path < 0) | (path >= counts[stream]) | (chunk < 0) | (chunk >= sizes[stream]))
        names = dict.fromkeys(chain.from_iterable(self.paths))
        numbers = {name: number for number, name in enumerate(names)}
        of_stream = np.array([numbers[name] for own in self.paths for name in own], dtype=np.int64)
        own = of_stream[(np.cumsum(counts) - counts)[stream] + path]
        place = own * total + (np.cumsum(sizes) - sizes)[stream] + chunk
        seconds = np.bincount(place, duration_s, total * len(numbers)).astype(float).reshape(-1, total)
        return dict(zip(names, seconds, strict=True)) if names else {}

    def _check_stages(self, stream: Integers, misplaced: NDArray[np.bool_]) -> None:
        if misplaced.any():
            message = "a stage is of a chunk or path that is not there"
            raise StreamFaultError(int(stream[misplaced.argmax()]), message)
        start_s, duration_s = np.array(self.stage_start_s, dtype=float), np.array(self.duration_s, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            sums_s = np.bincount(stream, np.abs(start_s) + duration_s, len(self))
        wrong = ~np.isfinite(sums_s)
        wrong[stream[duration_s < 0]] = True
        if wrong.any():
            message = "a stage has a duration below 0, or a time that is not a number"
            raise StreamFaultError(int(wrong.argmax()), message)

    def _facts(self, sizes: Integers, times: Times, text_s: Floats, places: _Places) -> NDArray[np.float64]:
        """The row of each stream, in the order of the fields of StreamFacts."""
        words = np.array([-1 if facts.errors is None else facts.errors.words for facts in self.texts])
        committed = places.committed_by
        heard, passed = (
            laggings(values[committed], places.final_words, np.array(self.audio_s, dtype=float), words)
            for values in (times.due_s[places.chunks], text_s)
        )
        if self.is_remote:
            slopes = np.full(sizes.size, np.nan)
        else:
            with_audio = np.ones(times.due_s.size, dtype=bool)
            with_audio[np.cumsum(sizes) - 1] = False
            slopes = backlog_slopes(times.due_s[with_audio], (times.start_s - times.due_s)[with_audio], sizes - 1)
        known = np.array(self.times, dtype=float).T
        return np.stack([*known, *heard, *passed, slopes], axis=1)

    def _words(
        self, times: Times, stages: Mapping[str, Floats], text_s: Floats, places: _Places
    ) -> tuple[Floats, Floats, dict[str, PartSums]]:
        """When each reference word was shown and became stable, and the parts of its latency."""
        # What is behind the last text is for words of which there is none.
        shown_s, stable_s = (np.append(text_s, np.nan)[by] for by in (places.shown_by, places.stable_by))
        end_s = self.utterances.ends_of(np.array(self.positions, dtype=np.int64))
        lookahead_s = np.array(self.lookahead_s, dtype=float)[places.word]
        shown, stable = places.shown_by >= 0, places.stable_by >= 0
        if self.is_remote:
            network_s = np.nan_to_num(np.array(self.network_s, dtype=float))[places.word]
            queue_s = np.append(np.array(self.reported_s, dtype=float), 0.0)[places.shown_by]
            at_s = times.due_s, times.start_s, end_s, lookahead_s, places.earliest
            parts = remote_waterfalls(*at_s, np.where(shown, shown_s, end_s), network_s, queue_s)
        else:
            # A word that was not shown counts as shown by the chunk that could have, and has no parts.
            chunk = np.where(shown, np.append(places.chunks, 0)[places.shown_by], places.earliest)
            parts = waterfalls(*times, stages, end_s, lookahead_s, places.earliest, chunk)
        sums = {
            part: PartSums(
                np.bincount(places.word[shown], parts[part][shown], len(self)).astype(float),
                np.bincount(places.word[stable], parts[part][stable], len(self)).astype(float),
                float(parts[part][shown].min(initial=np.inf)),
            )
            for part in WATERFALL
        }
        return shown_s, stable_s, sums
