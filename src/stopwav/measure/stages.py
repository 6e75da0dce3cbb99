"""`stage("features")` marks a part of a call; a clock that times the call collects the marks.

Nobody measuring costs one context-variable look-up, so the marks may stay in production code. The state lives in a
context variable and not in a global, so that threads and asyncio tasks do not write into each other's measurement: a
stage entered in a thread that the timed call started is not collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType


@dataclass(frozen=True)
class Span:
    """One passage through a stage: its path (`inference/search` is nested in `inference`) and when, in seconds."""

    path: str
    start_s: float
    duration_s: float


# (path, start, end) as the clock at work tells them, in nanoseconds or as the places of its events: kept raw while it
# runs and made into Spans afterwards.
_Mark = tuple[str, int, int]
_Frame = tuple[list[_Mark], str, Callable[[], int]]
_current: ContextVar[_Frame | None] = ContextVar("stopwav_stage", default=None)


class stage:
    """A context manager that names a part of the call being timed; does nothing when nobody measures."""

    __slots__ = ("_mark", "_name", "_token")

    def __init__(self, name: str) -> None:
        self._name = name
        self._token: Token[_Frame | None] | None = None

    def __enter__(self) -> None:
        frame = _current.get()
        if frame is None:
            return
        marks, prefix, now_ns = frame
        path = f"{prefix}/{self._name}" if prefix else self._name
        self._token = _current.set((marks, path, now_ns))
        self._mark = (marks, path, now_ns, now_ns())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        marks, path, now_ns, start_ns = self._mark
        marks.append((path, start_ns, now_ns()))
        _current.reset(self._token)
        self._token = None


@contextmanager
def collect_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """A list that fills with the marks of every stage passed through in this context."""
    marks: list[_Mark] = []
    token = _current.set((marks, "", now_ns))
    try:
        yield marks
    finally:
        _current.reset(token)


@contextmanager
def overhear_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """A list of the stages' marks, there when the context ends; whoever measures around it gets them by its clock."""
    frame = _current.get()
    if frame is None:
        with collect_marks(now_ns) as marks:
            yield marks
        return
    outer, prefix, outer_now_ns = frame
    ticks: list[tuple[int, int]] = []

    def tick() -> int:
        ticks.append((now_ns(), outer_now_ns()))
        return len(ticks) - 1

    marks = []
    try:
        with collect_marks(tick) as marks:
            yield marks
    finally:
        outer.extend(
            (f"{prefix}/{path}" if prefix else path, ticks[start][1], ticks[end][1]) for path, start, end in marks
        )
        marks[:] = [(path, ticks[start][0], ticks[end][0]) for path, start, end in marks]


def open_stage() -> str:
    """The path of the stage that is open here and now, or "" where none is."""
    frame = _current.get()
    return frame[1] if frame is not None else ""


def spans_of(marks: list[_Mark], origin_ns: int) -> tuple[Span, ...]:
    """The marks as spans in order of their start, in seconds since `origin_ns`."""
    # By start, and the outer one first where two start at the same tick.
    ordered = sorted(marks, key=lambda mark: (mark[1], mark[0].count("/")))
    return tuple(Span(path, (start - origin_ns) / 1e9, (end - start) / 1e9) for path, start, end in ordered)


def stage_totals(spans: tuple[Span, ...]) -> dict[str, float]:
    """Seconds per stage path, summed over its passages."""
    totals: dict[str, float] = {}
    for span in spans:
        totals[span.path] = totals.get(span.path, 0.0) + span.duration_s
    return totals
