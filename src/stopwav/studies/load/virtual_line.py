"""Many streams through one worker in virtual time: calls in the order in which they fall due, and their real durations.

The worker is a queue with one server. A call starts when it is due or when the worker is free, whichever is later; how
long it takes is measured; queueing follows. Nothing waits for a clock, so that a level takes as long as its work.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.measure.clock import Clock, PacedCall, Timing
from stopwav.speech.events import TraceBuilder
from stopwav.studies.engine_calls import chunk_of

# A call of a stream: its samples, or None for the end.
Samples = NDArray[np.float32] | None


@dataclass
class LineStream:
    """A stream in the line: when it begins, what is pushed and when, since it began; and what came of it."""

    begin_s: float
    due_s: Sequence[float]
    chunks: Sequence[Samples]
    open: Callable[[], Any]
    trace: TraceBuilder = field(default_factory=TraceBuilder)
    failure: str = ""
    over: bool = False
    session: Any = None
    close: Callable[[], None] = lambda: None

    @property
    def position(self) -> int:
        """The chunk that is next."""
        return len(self.trace)

    @property
    def next_due_s(self) -> float:
        """When the next chunk is due, since the line began."""
        return self.begin_s + self.due_s[self.position]


@dataclass(frozen=True)
class Batching:
    """How calls are taken together: by what, how many at the most, and how long the first one may wait for others."""

    advance: Callable[[Sequence[tuple[Any, Samples]]], Sequence[Any]]
    most: int
    wait_s: float = 0.0


def run_line(
    streams: Sequence[LineStream],
    clock: Clock,
    cut_s: float,
    batching: Batching | None = None,
    is_awaited: Callable[[LineStream], bool] = lambda stream: True,
) -> float:
    """Run all streams through one worker, until all that are awaited are over or the worker is busy beyond `cut_s`.

    Return when the worker became free for the last time, in seconds since the line began.
    """
    line = [(stream.next_due_s, number, stream) for number, stream in enumerate(streams)]
    heapq.heapify(line)
    awaited = sum(map(is_awaited, streams))
    free_s = 0.0
    while line and awaited and free_s < cut_s:
        start_s, taken = _next_calls(line, free_s, batching)
        timing = clock.time(lambda: _make(taken, batching))  # noqa: B023
        free_s = start_s + timing.wall_s
        for (number, stream), result in zip(taken, timing.result, strict=True):
            _note(stream, result, timing, start_s, free_s)
            if stream.over or stream.failure:
                stream.close()
                awaited -= is_awaited(stream)
            else:
                heapq.heappush(line, (stream.next_due_s, number, stream))
    for _, _, stream in line:
        if stream.session is not None:
            stream.close()
    return free_s


def _next_calls(
    line: list[tuple[float, int, LineStream]], free_s: float, batching: Batching | None
) -> tuple[float, list[tuple[int, LineStream]]]:
    """Take the calls that are made next off the line, and return them with the time at which they start."""
    due_s, number, stream = heapq.heappop(line)
    start_s = max(due_s, free_s)
    taken = [(number, stream)]
    if batching is None:
        return start_s, taken
    # A worker that is free waits for more, but not for a batch that is full before.
    latest_s = max(free_s, due_s + batching.wait_s)
    while line and len(taken) < batching.most and line[0][0] <= latest_s:
        due_s, number, stream = heapq.heappop(line)
        taken.append((number, stream))
    full = len(taken) == batching.most
    return (max(start_s, due_s) if full else max(start_s, latest_s if batching.wait_s else start_s)), taken


def _make(taken: Sequence[tuple[int, LineStream]], batching: Batching | None) -> list[Any]:
    """Make the calls, and return what each returned, or the error that it raised."""
    if batching is None:
        return [_attempt(stream) for _, stream in taken]
    errors = {number: error for number, stream in taken if (error := _open(stream)) is not None}
    calls = [(stream.session, stream.chunks[stream.position]) for number, stream in taken if number not in errors]
    results: Iterator[Any]
    try:
        results = iter(list(batching.advance(calls)) if calls else [])
    except Exception as error:  # whatever an engine raises is a result, and here that of all that were in the batch
        results = repeat(error)
    return [errors[number] if number in errors else next(results) for number, _ in taken]


def _open(stream: LineStream) -> Exception | None:
    """Open a stream before its first call; return the error where that fails, which the others have no part in."""
    try:
        stream.session = stream.session if stream.session is not None else stream.open()
    except Exception as error:
        return error
    return None


def _attempt(stream: LineStream) -> Any:
    try:
        if stream.session is None:
            stream.session = stream.open()
        samples = stream.chunks[stream.position]
        return stream.session.finish() if samples is None else stream.session.push(samples)
    except Exception as error:  # whatever an engine raises is a result
        return error


def _note(stream: LineStream, result: Any, timing: Timing, start_s: float, done_s: float) -> None:
    """Add a call to the trace of its stream, whose times count from its first sample."""
    if isinstance(result, Exception):
        stream.failure = f"{type(result).__name__}: {result}"
        return
    times_s = stream.due_s[stream.position], start_s - stream.begin_s, done_s - stream.begin_s
    try:
        stream.trace.add(chunk_of(PacedCall(*times_s, timing.spans, result)))
    except Exception as error:
        stream.failure = f"{type(error).__name__}: {error}"
        return
    stream.over = stream.position == len(stream.chunks)
