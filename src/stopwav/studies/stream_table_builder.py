"""Takes the streams of an engine one by one, in batches, and makes their table."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from stopwav.speech.events import Floats
from stopwav.speech.stored_trace import TraceLists, check_form, check_texts
from stopwav.speech.waterfall import WATERFALL
from stopwav.studies.chunk_columns import Chunks
from stopwav.studies.column_file import ColumnFile
from stopwav.studies.stream_facts import StreamFacts, TextFacts, text_facts
from stopwav.studies.stream_table import PartSums, StreamTable, Words
from stopwav.studies.trace_batch import BatchColumns, StreamFaultError, TraceBatch
from stopwav.studies.utterance_table import UtteranceTable

# Batches whose chunks and words are kept in memory: two million chunks, in some 40 MB.
MOST_IN_MEMORY = 40
# By a hash of utterance and texts. The rounds of an engine mostly have the same texts, and so do two runs of it; to
# find out what texts say is most of the work.
_TEXTS: WeakValueDictionary[int, TextFacts] = WeakValueDictionary()


@dataclass
class StreamTableBuilder:
    """The streams that were added so far."""

    utterances: UtteranceTable
    utterance: array[int] = field(default_factory=lambda: array("q"))
    round: array[int] = field(default_factory=lambda: array("q"))
    audio_s: array[float] = field(default_factory=lambda: array("d"))
    # Half of the round trip of each stream behind a protocol.
    network_s: array[float] = field(default_factory=lambda: array("d"))
    algorithm_s: tuple[float, float] | None = None
    texts: list[TextFacts] = field(default_factory=list)
    order: dict[str, None] = field(default_factory=dict)
    batch: TraceBatch | None = None
    batches: list[BatchColumns] = field(default_factory=list)
    # That of the chunks and words of all further batches.
    file: ColumnFile | None = None

    def add(self, lists: TraceLists, position: int, index: int) -> None:
        """Add a stream: its trace, the position of its utterance, and its round."""
        check_form(lists)
        if not lists.due_s:
            raise ValueError("it has no chunks")
        texts = self._text_facts(lists, position)
        is_remote = lists.remote is not None
        if self.texts and is_remote != bool(self.network_s):
            raise ValueError("of one engine, some streams went through a server and others did not")
        self.batch = self.batch or TraceBatch(self.utterances, is_remote)
        self.batch.add(lists, texts, position)
        self.texts.append(texts)
        self.utterance.append(position)
        self.round.append(index)
        self.audio_s.append(lists.audio_s)
        self.algorithm_s = self.algorithm_s or (lists.chunk_s, lists.lookahead_s)
        if lists.remote is not None:
            self.network_s.append(np.nan if lists.remote.network_s is None else lists.remote.network_s)
        if self.batch.is_full:
            self._close_batch()

    def _text_facts(self, lists: TraceLists, position: int) -> TextFacts:
        said = (self.utterances.hashes[position], tuple(lists.due_s), lists.texts, lists.lookahead_s)
        texts = _TEXTS.get(key := hash(said))
        if texts is None:
            check_texts(lists)
            texts = _TEXTS[key] = text_facts(lists, self.utterances[position])
        return texts

    def _close_batch(self) -> None:
        if self.batch is None:
            return
        before = len(self.texts) - len(self.batch)
        try:
            columns = self.batch.columns()
        except StreamFaultError as fault:
            raise StreamFaultError(before + fault.index, str(fault)) from None
        self.order.update(dict.fromkeys(self.batch.stage_order(set(self.order))))
        if len(self.batches) >= MOST_IN_MEMORY:
            self.file = self.file or ColumnFile()
            columns = columns.stored(self.file)
        self.batches.append(columns)
        self.batch = None

    def table(self) -> StreamTable:
        """Return the table of all streams; raise StreamFaultError for one that cannot have happened."""
        self._close_batch()
        utterance, batches = np.array(self.utterance, dtype=np.int64), self.batches
        facts = np.concatenate([batch.facts for batch in batches] or [np.zeros((0, len(StreamFacts._fields)))])
        words = Words(
            self.utterances,
            utterance,
            self.utterances.word_counts[utterance],
            tuple(batch.shown_s for batch in batches),
            tuple(batch.stable_s for batch in batches),
            _joined_parts([batch.parts for batch in batches]),
        )
        return StreamTable(
            self.utterances,
            utterance,
            np.array(self.round, dtype=np.int64),
            np.array(self.audio_s, dtype=float),
            _joined([batch.service_s for batch in batches]),
            self.algorithm_s,
            np.array(self.network_s, dtype=float) if self.network_s else None,
            facts,
            self.texts,
            Chunks(tuple(batch.chunks for batch in batches), tuple(self.order)),
            words,
        )


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _joined_parts(batches: list[Mapping[str, PartSums]]) -> dict[str, PartSums]:
    """The parts of all batches; those that no stream has share their zeros."""
    none = np.zeros(sum(batch[WATERFALL[0]].shown.size for batch in batches))
    parts = {}
    for part in WATERFALL:
        own = [batch[part] for batch in batches]
        shown, stable = ([getattr(sums, name) for sums in own] for name in ("shown", "stable"))
        least = min((sums.least for sums in own), default=0.0)
        parts[part] = PartSums(_joined_sums(shown, none), _joined_sums(stable, none), least)
    return parts


def _joined_sums(parts: list[Floats], none: Floats) -> Floats:
    return _joined(parts) if any(values.any() for values in parts) else none
