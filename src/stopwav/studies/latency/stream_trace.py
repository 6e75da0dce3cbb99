"""The streams of latency runs as a Chrome trace, which Perfetto and chrome://tracing open.

One process per engine, with three tracks: the utterances, the work (each chunk with its stages inside), and the texts
as they appear; and a counter of the chunks that wait. Utterances lie one after the other, and every engine's stream of
an utterance begins at the same place, so that engines can be compared by eye. Times are microseconds of stream time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.events import Chunk, Trace
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.stream_table import read_trace

Event = dict[str, Any]
# The round and the utterance of a stream.
Place = tuple[str | int, str | int]

UTTERANCES, WORK, TEXT = 1, 2, 3
TRACKS = {UTTERANCES: "utterances", WORK: "work", TEXT: "text"}
# Enough to tell utterances apart at a glance, and short compared with any of them.
GAP_NS = 500_000_000
# What fits on a screen; a text of 100 kB in every event would make a file that no viewer opens.
LONGEST_NAME, LONGEST_TEXT = 80, 1000


def stream_trace(records: Sequence[Record]) -> dict[str, Any]:
    """Return the object to write as JSON: all streams of the runs, those that failed as far as they got."""
    events: list[Event] = []
    for record in records:
        offsets = _offsets(record)
        for name in engine_names(record.header.spec["engines"]):
            label = name if len(records) == 1 else f"{record.path.stem}: {name}"
            process = 1 + sum(event["name"] == "process_name" for event in events)
            pieces = [piece for piece in _streams(record) if piece.key[2] == name]
            events += _process(process, label, pieces, offsets)
    header = records[0].header
    origin = {"stopwav": header.stopwav, "study": header.study, "started": header.started}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": origin}


def _streams(record: Record) -> list[Piece]:
    return [piece for piece in record.pieces if piece.key[0] == "stream"]


def _offsets(record: Record) -> dict[Place, int]:
    """Where the streams of each round and utterance begin, in nanoseconds: after the longest of the one before."""
    lengths: dict[Place, int] = {}
    for piece in _streams(record):
        place = (piece.key[1], piece.key[3])
        lengths[place] = max(lengths.get(place, 0), _length_ns(piece))
    offsets, offset = {}, 0
    for place, length in lengths.items():
        offsets[place] = offset
        offset += length + GAP_NS
    return offsets


def _trace(piece: Piece) -> Trace | None:
    return read_trace(piece) if piece.read().get("trace") else None


def _length_ns(piece: Piece) -> int:
    trace = _trace(piece)
    return 0 if trace is None else _ns(float(max([trace.audio_s, *trace.done_s[-1:]])))


def _process(process: int, label: str, pieces: Sequence[Piece], offsets: dict[Place, int]) -> list[Event]:
    """All events of one engine: the names of its tracks, then everything in the order of time."""
    names: list[Event] = [{"ph": "M", "pid": process, "name": "process_name", "args": {"name": _cut(label)}}]
    for track, name in TRACKS.items():
        names.append({"ph": "M", "pid": process, "tid": track, "name": "thread_name", "args": {"name": name}})
        names.append(
            {"ph": "M", "pid": process, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}
        )
    streamed = [event for piece in pieces for event in _stream(piece, offsets[(piece.key[1], piece.key[3])])]
    # Spans that begin at the same time are nested, the longer outside; the sort keeps the order of counters.
    streamed.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    return names + [
        {**event, "pid": process, "ts": event["ts"] / 1000, **({"dur": event["dur"] / 1000} if "dur" in event else {})}
        for event in streamed
    ]


def _stream(piece: Piece, offset: int) -> Iterator[Event]:
    """The events of one stream, in nanoseconds."""
    _, index, _, utterance = piece.key
    failed = piece.status != "ok"
    title = f"{utterance} (round {int(index) + 1}{f', {piece.status}' if failed else ''})"
    length = _length_ns(piece)
    yield _span(UTTERANCES, "utterance", title, offset, length, {"status": piece.status})
    if failed:
        yield _instant(TEXT, "failure", f"{piece.status}: {piece.message}", offset + length)
    trace = _trace(piece)
    if trace is None:
        return
    kind = "failed" if failed else "chunk"
    for number, chunk in enumerate(trace.chunks()):
        last = not failed and number == len(trace.due_s) - 1
        yield from _chunk(chunk, "end of stream" if last else f"chunk {number + 1}", kind, offset)
    yield from _waiting(trace, offset)


def _chunk(chunk: Chunk, title: str, kind: str, offset: int) -> Iterator[Event]:
    start, done = offset + _ns(chunk.start_s), offset + _ns(chunk.done_s)
    times = {"due_s": chunk.due_s, "queue_ms": round(1e3 * chunk.queue_s, 6), "lag_ms": round(1e3 * chunk.lag_s, 6)}
    yield _span(WORK, kind, title, start, done - start, times)
    ends = {"": (start, done)}
    for stage in sorted(chunk.stages, key=lambda stage: (stage.start_s, -stage.duration_s)):
        parent, _, name = stage.path.rpartition("/")
        # Rounding to nanoseconds must not move the end of a stage out of the one that holds it.
        first, last = ends.get(parent, (start, done))
        begin = min(max(start + _ns(stage.start_s), first), last)
        end = min(max(start + _ns(stage.start_s + stage.duration_s), begin), last)
        ends[stage.path] = (begin, end)
        yield _span(WORK, "stage", name, begin, end - begin, {"path": stage.path})
    for text in chunk.hypotheses:
        yield _instant(TEXT, "hypothesis", text, done)


def _waiting(trace: Trace, offset: int) -> Iterator[Event]:
    """The number of chunks that wait, each time it changes."""
    pairs = [(_ns(due_s), _ns(start_s)) for due_s, start_s in zip(trace.due_s, trace.start_s, strict=True)]
    waited = [(due, start) for due, start in pairs if start > due]
    changes = [(due, 1) for due, _ in waited] + [(start, -1) for _, start in waited]
    waiting = 0
    for moment, change in sorted(changes):
        waiting += change
        yield {"ph": "C", "tid": WORK, "name": "queue", "ts": offset + moment, "args": {"chunks waiting": waiting}}


def _span(track: int, kind: str, name: str, start: int, length: int, args: dict[str, Any]) -> Event:
    return {"ph": "X", "tid": track, "cat": kind, "name": _cut(name), "ts": start, "dur": length, "args": args}


def _instant(track: int, kind: str, text: str, moment: int) -> Event:
    args = {"text": text[:LONGEST_TEXT]}
    return {"ph": "i", "s": "t", "tid": track, "cat": kind, "name": _cut(text), "ts": moment, "args": args}


def _cut(name: str) -> str:
    return (name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…") or "(nothing)"


def _ns(seconds: float) -> int:
    return round(float(seconds) * 1e9)
