"""`stage("features")` marks a part of a call; the clock that times the call collects the marks.

A stage costs one check while nothing is measured, so stages may stay in production code. The state is a context
variable, not a global, so that threads and asyncio tasks do not write into each other's measurement: a stage entered in
a thread that the timed call started is not collected. Contexts are copied and left in any order, so each frame has its
own flag that says whether it is still open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType


@dataclass(frozen=True)
class Span:
    """One execution of a stage: its path (`inference/search` is nested in `inference`), start and duration."""

    path: str
    start_s: float
    duration_s: float


# (path, start, end) as the clock reports them, in nanoseconds or as positions of its events; they become Spans after
# the call.
_Mark = tuple[str, int, int]


@dataclass(eq=False, slots=True)
class _Collector:
    """A measurement that collects marks: its clock, the marks so far, and the thread whose stages they are."""

    now_ns: Callable[[], int]
    marks: list[_Mark] = field(default_factory=list)
    thread: int = field(default_factory=get_ident)
    open: bool = True


@dataclass(eq=False, slots=True)
class _Frame:
    """An open stage, or the start of a collector (no stage), inside another frame."""

    collector: _Collector
    outer: _Frame | None
    path: str = ""
    stage: stage | None = None
    start_ns: int = 0
    open: bool = True


_current: ContextVar[_Frame | None] = ContextVar("stopwav_stage", default=None)
# All of this process. A stage checks this set first: torch.compile can trace an empty set but no context variable.
_collectors: set[_Collector] = set()
# Whether torch.compile is tracing this code: PyTorch's own function, set when measuring starts with torch imported.
_is_compiling: Callable[[], bool] = bool


def current_frame() -> _Frame | None:
    """Return the innermost open frame of this context and thread; a copied context may hold closed ones."""
    frame = _current.get()
    while frame is not None and not (frame.open and frame.collector.open):
        frame = frame.outer
    if frame is None or frame.collector.thread != get_ident():
        return None
    return frame


class stage:
    """A context manager that names a part of the call being timed; does nothing while nothing is measured.

    It also does nothing in code that torch.compile turns into one graph: its parts do not run one after the other.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if not _collectors or _is_compiling():
            return
        outer = current_frame()
        if outer is None:
            return
        path = f"{outer.path}/{self._name}" if outer.path else str(self._name)
        frame = _Frame(outer.collector, outer, path, self)
        _current.set(frame)
        frame.start_ns = frame.collector.now_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not _collectors or _is_compiling():
            return
        frame = _current.get()
        # A stage entered twice has two frames: the inner one ends. One entered before measuring began has none.
        while frame is not None and not (frame.stage is self and frame.open):
            frame = frame.outer
        if frame is None or not frame.collector.open or frame.collector.thread != get_ident():
            return
        collector = frame.collector
        try:
            collector.marks.append((frame.path, frame.start_ns, collector.now_ns()))
        except Exception:
            if kind is None:  # otherwise a clock that fails too, as that of a lost device does, would hide the cause
                raise
        finally:
            frame.open = False
            _current.set(current_frame())


@contextmanager
def collect_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """Yield a list that fills with the marks of every stage executed in this context."""
    global _is_compiling
    compiler = getattr(sys.modules.get("torch"), "compiler", None)  # None while torch itself is being imported
    if compiler is not None:
        _is_compiling = compiler.is_compiling
    collector = _Collector(now_ns)
    _collectors.add(collector)
    _current.set(_Frame(collector, current_frame()))
    try:
        yield collector.marks
    finally:
        collector.open = False
        _collectors.discard(collector)
        _current.set(current_frame())


@contextmanager
def collect_and_forward_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """Yield a list that holds the marks when the context ends; an outer collector gets them too, by its own clock."""
    frame = current_frame()
    if frame is None:
        with collect_marks(now_ns) as marks:
            yield marks
        return
    outer, prefix = frame.collector, frame.path
    ticks: list[tuple[int, int]] = []

    def tick() -> int:
        ticks.append((now_ns(), outer.now_ns()))
        return len(ticks) - 1

    marks = []
    try:
        with collect_marks(tick) as marks:
            yield marks
    finally:
        if outer.open:
            outer.marks.extend(
                (f"{prefix}/{path}" if prefix else path, ticks[start][1], ticks[end][1]) for path, start, end in marks
            )
        marks[:] = [(path, ticks[start][0], ticks[end][0]) for path, start, end in marks]


def open_stage() -> str:
    """Return the path of the innermost open stage, or "" where none is open."""
    frame = current_frame()
    return frame.path if frame is not None else ""


def spans_of(marks: list[_Mark], origin_ns: int) -> tuple[Span, ...]:
    """Return the marks as spans in order of their start, in seconds since `origin_ns`."""
    # By start, and the outer one first where two start at the same tick.
    ordered = sorted(marks, key=lambda mark: (mark[1], mark[0].count("/")))
    return tuple(Span(path, (start - origin_ns) / 1e9, (end - start) / 1e9) for path, start, end in ordered)


def stage_totals(spans: tuple[Span, ...]) -> dict[str, float]:
    """Return the seconds per stage path, summed over its spans."""
    totals: dict[str, float] = {}
    for span in spans:
        totals[span.path] = totals.get(span.path, 0.0) + span.duration_s
    return totals
