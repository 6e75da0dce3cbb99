"""What a latency run costs to look at: streams are read and dropped, texts analysed once, timelines sampled."""

import errno
import tracemalloc
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

import numpy as np
import pytest
from synthetic import write_run
from synthetic_runs import saved, synthetic_run

from stopwav.record import Record
from stopwav.speech import latency as streaming
from stopwav.studies import column_file, stream_facts, stream_table_builder, trace_batch
from stopwav.studies.chunk_columns import Whole
from stopwav.studies.column_file import StoredColumn
from stopwav.studies.latency.stream_table import stream_tables
from stopwav.studies.latency.timelines import MOST_TIMELINES
from stopwav.studies.study import StudyRun, results


def test_streams_are_not_kept_and_rounds_with_the_same_texts_are_analysed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed = 0

    def counted(*arguments: object) -> object:
        nonlocal analysed
        analysed += 1
        return match_words(*arguments)  # type: ignore[arg-type]

    match_words = streaming.match_words
    monkeypatch.setattr(stream_facts, "match_words", counted)
    # What runs of other tests hold is not known here.
    monkeypatch.setattr(stream_table_builder, "_TEXTS", WeakValueDictionary())
    path = saved(synthetic_run(seed=0, rounds=10), tmp_path / "latency-a.jsonl")
    record = Record.read(path)
    (result,) = results(record)
    assert result.metrics["word_latency_p50"].n == 10 * 6 * 13
    # The utterances of this run have the same words at the same times, and so do their texts.
    assert analysed == 1
    streams = [piece for piece in record.pieces if piece.key[0] == "stream"]
    assert len(streams) == 60
    assert all(piece._data is None for piece in streams)


def test_the_page_of_a_large_run_replays_a_sample_and_says_so(tmp_path: Path) -> None:
    count = MOST_TIMELINES + 30
    run = StudyRun(Record.read(write_run(tmp_path / "run.jsonl", engines=["swift"], utterances=count)))
    timelines = run.view["timelines"]
    assert len({timeline["id"] for timeline in timelines}) == len(timelines) == MOST_TIMELINES
    assert f"{MOST_TIMELINES} of {count} utterances" in run.view["timelines_of"]
    table = stream_tables(run.record)["swift"]
    slowest = table.words.stream[np.nanargmax(table.words.latency_s)]
    assert table.utterances[table.utterance[slowest]].id in {timeline["id"] for timeline in timelines}


class FullDisk:
    """A file on a disk that is full after some writes."""

    def __init__(self, file: IO[bytes], writes: int) -> None:
        self.tell, self.fileno = file.tell, file.fileno
        self._file, self._left = file, writes

    def write(self, data: bytes) -> int:
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)


@pytest.mark.parametrize("writes", [0, 3, 1000])
def test_times_of_chunks_in_a_file_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    path = write_run(tmp_path / "run.jsonl", engines=["swift"], utterances=40)
    expected = results(Record.read(path))
    opened = column_file.TemporaryFile
    monkeypatch.setattr(column_file, "TemporaryFile", lambda **options: FullDisk(opened(**options), writes))
    monkeypatch.setattr(trace_batch, "MOST_CHUNKS", 200)
    monkeypatch.setattr(stream_table_builder, "MOST_IN_MEMORY", 1)
    record = Record.read(path)
    assert results(record) == expected
    columns = [
        column.others
        for block in stream_tables(record)["swift"].chunks.blocks
        for column in (*block.steps, *block.stages.values())
        if isinstance(column, Whole)
    ]
    in_file = sum(isinstance(column, StoredColumn) for column in columns)
    assert in_file == min(writes, in_file)
    assert (in_file > 10) == (writes == 1000)


def test_a_stream_takes_some_hundred_bytes_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 100,000 utterances in three rounds then takes a third of a gigabyte, before anything is computed."""
    monkeypatch.setattr(trace_batch, "MOST_CHUNKS", 2000)
    monkeypatch.setattr(stream_table_builder, "MOST_IN_MEMORY", 0)

    def taken_bytes(utterances: int) -> int:
        path = write_run(tmp_path / f"{utterances}.jsonl", engines=["swift"], utterances=utterances, chunks=60)
        tracemalloc.start()
        record = Record.read(path)
        tables = stream_tables(record)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(tables["swift"]) == utterances
        return taken

    # 60 chunks would take 1.9 kB as numbers of eight bytes, and 15 words as objects 2.5 kB.
    assert (taken_bytes(400) - taken_bytes(100)) / 300 < 3000
