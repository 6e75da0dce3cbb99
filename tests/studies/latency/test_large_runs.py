"""What a latency run costs to look at: streams are read and dropped, texts analysed once, timelines sampled."""

from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pytest
from synthetic import write_run
from synthetic_runs import saved, synthetic_run

from stopwav.record import Record
from stopwav.speech import latency as streaming
from stopwav.studies import stream_facts, stream_table_builder
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
