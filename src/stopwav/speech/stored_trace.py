"""Traces as run files hold them: read from either format, and refused where they cannot have happened."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stopwav.speech.events import (
    Floats,
    RemoteFacts,
    StageColumns,
    TextChange,
    Trace,
    shown_at,
    stage_lists,
    text_change,
)

# Two clock readings of one moment may differ by rounding.
_TOLERANCE_S = 1e-6


class TraceLists(NamedTuple):
    """A trace as a line of a run file holds it: plain lists, which nothing has checked yet."""

    audio_s: float
    chunk_s: float
    lookahead_s: float
    due_s: list[float]
    start_s: list[float]
    done_s: list[float]
    # Every execution of a stage: its path as an index of `paths`, its chunk, start and duration.
    paths: Sequence[str]
    path: list[int]
    chunk: list[int]
    stage_start_s: list[float]
    stage_duration_s: list[float]
    texts: tuple[TextChange, ...]
    # When each text arrived from a server; None where texts are shown when their chunk is done.
    arrivals_s: list[float] | None = None
    endpoints_s: Sequence[float] = ()
    # What is known of the way to a server; None of a stream in a process.
    remote: RemoteFacts | None = None


def trace_lists(fields: Mapping[str, Any]) -> TraceLists:
    """Return the lists of a trace that `to_json` wrote, now or in format 1; raise where fields are missing."""
    lengths_s = (fields["audio_s"], fields["chunk_s"], fields["lookahead_s"])
    if not all(isinstance(length_s, (int, float)) and 0 <= length_s < math.inf for length_s in lengths_s):
        raise ValueError(f"audio_s, chunk_s and lookahead_s are {lengths_s}")
    if "chunks" in fields:
        return _first_format(lengths_s, fields["chunks"])
    if "sent" in fields:
        return _remote_lists(lengths_s, fields)
    stages = fields["stages"]
    columns = (stages["paths"], stages["path"], stages["chunk"], stages["start"], stages["duration"])
    texts = tuple(map(TextChange._make, fields["texts"]))
    times = (fields["due"], fields["start"], fields["done"])
    return TraceLists(*lengths_s, *times, *columns, texts, None, fields.get("endpoints", ()))


def trace_from_json(fields: Mapping[str, Any]) -> Trace:
    """Return the trace that `to_json` wrote, now or in format 1; raise ValueError where it cannot have happened."""
    lists = trace_lists(fields)
    check_form(lists)
    _check_stages(lists)
    check_texts(lists)
    due_s, start_s, done_s, stage_start_s, duration_s = (
        np.array(column, dtype=float)
        for column in (lists.due_s, lists.start_s, lists.done_s, lists.stage_start_s, lists.stage_duration_s)
    )
    path, chunk = (np.array(column, dtype=np.int64) for column in (lists.path, lists.chunk))
    fault = find_fault([len(lists.due_s)], due_s, start_s, done_s)
    if fault is not None:
        raise ValueError(fault[1])
    stages = StageColumns(tuple(lists.paths), path, chunk, stage_start_s, duration_s)
    lengths_s, times = (lists.audio_s, lists.chunk_s, lists.lookahead_s), (due_s, start_s, done_s)
    text_s = shown_at(done_s, lists.texts) if lists.arrivals_s is None else np.array(lists.arrivals_s, dtype=float)
    return Trace(*lengths_s, *times, stages, lists.texts, text_s, tuple(lists.endpoints_s), lists.remote)


def _remote_lists(lengths_s: tuple[Any, Any, Any], fields: Mapping[str, Any]) -> TraceLists:
    """The lists of a stream behind a protocol: chunks start when they are sent, and take no time."""
    texts, sent = tuple(map(TextChange._make, fields["texts"])), fields["sent"]
    network_s = fields.get("network_s")
    if network_s is not None and not 0 <= float(network_s) < math.inf:
        raise ValueError(f"network_s is {network_s!r:.60}")
    remote = RemoteFacts(network_s, tuple(map(float, fields.get("server_queue", ()))))
    arrivals = list(fields["arrivals"])
    if len(arrivals) != len(texts) or len(remote.queue_s) not in (0, len(texts)):
        raise ValueError(f"{len(texts)} texts have {len(arrivals)} times of arrival")
    if not all(map(math.isfinite, arrivals)):
        raise ValueError("a text arrives at a time that is not a number")
    if any(later < earlier for earlier, later in itertools.pairwise(arrivals)):
        raise ValueError("a text arrives before the one that it follows")
    endpoints = fields.get("endpoints", ())
    return TraceLists(*lengths_s, fields["due"], sent, sent, (), [], [], [], [], texts, arrivals, endpoints, remote)


def _first_format(lengths_s: tuple[Any, Any, Any], chunks: Sequence[Mapping[str, Any]]) -> TraceLists:
    """The lists of a trace that has an object per chunk, with its stages and the whole of its texts."""
    rows = [(index, *stage) for index, chunk in enumerate(chunks) for stage in chunk.get("stages", ())]
    changes, before = [], ""
    for index, chunk in enumerate(chunks):
        for text in chunk.get("text", ()):
            changes.append(text_change(index, before, text))
            before = text
    due_s, start_s, done_s = ([chunk[name] for chunk in chunks] for name in ("due", "start", "done"))
    paths, path, chunk_of, stage_start_s, duration_s = stage_lists(rows)
    times = (due_s, start_s, done_s)
    return TraceLists(*lengths_s, *times, paths, path, chunk_of, stage_start_s, duration_s, tuple(changes))


def check_form(lists: TraceLists) -> None:
    """Raise ValueError where lists that belong together have other lengths, or a name or an endpoint is none."""
    count, size = len(lists.due_s), len(lists.path)
    if not count == len(lists.start_s) == len(lists.done_s):
        raise ValueError(f"{count} chunks are due, {len(lists.start_s)} start, {len(lists.done_s)} are done")
    if not size == len(lists.chunk) == len(lists.stage_start_s) == len(lists.stage_duration_s):
        raise ValueError("the columns of its stages have different lengths")
    if not all(isinstance(path, str) for path in lists.paths) or len(set(lists.paths)) < len(lists.paths):
        raise ValueError(f"its stages are named {list(lists.paths)!r:.60}")
    if not all(map(math.isfinite, lists.endpoints_s)):
        raise ValueError("an endpoint has a time that is not a number")


def _check_stages(lists: TraceLists) -> None:
    """Raise ValueError where stages are of other chunks, or have times that cannot be."""
    count = len(lists.due_s)
    if lists.path:
        for column, most in ((lists.path, len(lists.paths)), (lists.chunk, count)):
            if min(column) < 0 or max(column) >= most:
                raise ValueError("a stage is of a chunk or path that is not there")
        seconds = sum(lists.stage_start_s) + sum(lists.stage_duration_s)
        if not (math.isfinite(seconds) and min(lists.stage_duration_s) >= 0):
            raise ValueError("a stage has a duration below 0, or a time that is not a number")


def check_texts(lists: TraceLists) -> None:
    """Raise ValueError where texts do not follow from each other, or are of chunks that are not there."""
    count = len(lists.due_s)
    before, length = 0, 0
    for chunk, kept, added in lists.texts:
        if not (before <= chunk < count and 0 <= kept <= length):
            raise ValueError(f"text {(chunk, kept, added)!r:.60} does not follow from the one before")
        before, length = chunk, kept + len("" + added)


def find_fault(lengths: Sequence[int], due_s: Floats, start_s: Floats, done_s: Floats) -> tuple[int, str] | None:
    """Return the first stream whose times cannot have happened, and why; the streams have so many chunks each."""
    ends = np.cumsum(lengths)
    # Whether the next chunk is of the same stream.
    inner = np.ones(due_s.size, dtype=bool)
    inner[ends[ends > 0] - 1] = False
    inner = inner[:-1]
    finite = np.isfinite(due_s) & np.isfinite(start_s) & np.isfinite(done_s)
    wrong = {
        "has a time that is not a number": ~finite,
        "is done before it starts": done_s < start_s,
        "is due before the stream begins": due_s < 0,
        "is due after the next one": inner & (due_s[1:] < due_s[:-1]),
        "is not done when the next one starts": inner & (start_s[1:] < done_s[:-1] - _TOLERANCE_S),
    }
    for reason, where in wrong.items():
        if where.any():
            chunk = int(where.argmax())
            stream = int(np.searchsorted(ends, chunk, side="right"))
            return stream, f"chunk {chunk - int(ends[stream]) + lengths[stream] + 1} {reason}"
    return None
