"""Traces: stored as what changed, read in both formats, and refused where they cannot have happened."""

import json
from typing import Any

import numpy as np
import pytest

from stopwav.speech.events import Chunk, Stage, Trace, TraceBuilder, trace_of
from stopwav.speech.stored_trace import trace_from_json

CHUNKS = (
    Chunk(0.1, 0.1, 0.15, (Stage("features", 0.0, 0.01), Stage("inference", 0.02, 0.03)), ("so",)),
    Chunk(0.2, 0.2, 0.27, (Stage("inference", 0.0, 0.05),), ("so it", "saw it")),
    Chunk(0.2, 0.27, 0.3, (), ("saw it",)),
)
TRACE = trace_of(0.2, 0.1, 0.04, CHUNKS)


def first_format(chunks: tuple[Chunk, ...]) -> dict[str, Any]:
    """The trace as earlier versions stored it."""
    rows = []
    for chunk in chunks:
        row: dict[str, Any] = {"due": chunk.due_s, "start": chunk.start_s, "done": chunk.done_s}
        if chunk.stages:
            row["stages"] = [[stage.path, stage.start_s, stage.duration_s] for stage in chunk.stages]
        if chunk.hypotheses:
            row["text"] = list(chunk.hypotheses)
        rows.append(row)
    return {"audio_s": 0.2, "chunk_s": 0.1, "lookahead_s": 0.04, "chunks": rows}


def same(a: Trace, b: Trace) -> bool:
    return list(a.chunks()) == list(b.chunks()) and (a.audio_s, a.chunk_s) == (b.audio_s, b.chunk_s)


def test_both_formats_hold_the_same_trace() -> None:
    assert tuple(TRACE.chunks()) == CHUNKS
    assert TRACE.text == "saw it"
    assert same(trace_from_json(first_format(CHUNKS)), TRACE)
    assert same(trace_from_json(json.loads(json.dumps(TRACE.to_json()))), TRACE)


def test_a_stream_of_growing_texts_is_stored_in_what_it_adds() -> None:
    builder, text = TraceBuilder(), ""
    for number in range(2000):
        text += f" word{number}"
        builder.add(Chunk(0.1 * number, 0.1 * number, 0.1 * number + 0.01, (), (text,)))
    stored = json.dumps(builder.trace(200.0, 0.1, 0.0).to_json())
    assert len(stored) < 2000 * 80  # the texts in full would be 10 MB
    assert trace_from_json(json.loads(stored)).text == text


def edited(change: Any) -> dict[str, Any]:
    fields = TRACE.to_json()
    change(fields)
    return fields


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: f["done"].__setitem__(1, 0.1), "chunk 2 is done before it starts"),
        (lambda f: f["due"].__setitem__(0, -1), "chunk 1 is due before the stream begins"),
        (lambda f: f["due"].__setitem__(0, 9), "chunk 1 is due after the next one"),
        (lambda f: f["start"].__setitem__(2, 0.2), "chunk 2 is not done when the next one starts"),
        (lambda f: f["start"].pop(), "3 chunks are due, 2 start, 3 are done"),
        (lambda f: f["done"].__setitem__(2, float("nan")), "not a number"),
        (lambda f: f.update(audio_s=float("inf")), "audio_s"),
        (lambda f: f["stages"]["duration"].__setitem__(0, -0.1), "duration below 0"),
        (lambda f: f["stages"]["chunk"].__setitem__(0, 7), "not there"),
        (lambda f: f["stages"]["path"].__setitem__(0, -1), "not there"),
        (lambda f: f["stages"]["start"].pop(), "different lengths"),
        (lambda f: f["texts"].__setitem__(1, [1, 99, "x"]), "does not follow"),
        (lambda f: f["texts"].__setitem__(1, [5, 0, "x"]), "does not follow"),
    ],
)
def test_what_cannot_have_happened_is_refused(change: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        trace_from_json(edited(change))


def test_a_trace_without_chunks_is_one() -> None:
    nothing = trace_of(0.0, 0.1, 0.0, ())
    assert nothing.text == ""
    assert list(trace_from_json(nothing.to_json()).chunks()) == []
    assert nothing.stage_seconds["other"].size == 0
    assert np.array_equal(nothing.lag_s, [])
