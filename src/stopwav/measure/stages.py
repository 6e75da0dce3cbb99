"""`stage("features")` marks a part of a call; a clock that times the call collects the marks.

Nobody measuring costs one look, so the marks may stay in production code. The state lives in a context variable and not
in a global, so that threads and asyncio tasks do not write into each other's measurement: a stage entered in a thread
that the timed call started is not collected. Contexts are copied, and left in any order: what is over is known by a
flag of its own, and not by the order in which it was entered.
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
    """One passage through a stage: its path (`inference/search` is nested in `inference`) and when, in seconds."""

    path: str
    start_s: float
    duration_s: float


# (path, start, end) as the clock at work tells them, in nanoseconds or as the places of its events: kept raw while it
# runs and made into Spans afterwards.
_Mark = tuple[str, int, int]


@dataclass(eq=False, slots=True)
class _Collector:
    """Who measures: by which clock, what was marked so far, and the thread whose stages they are."""

    now_ns: Callable[[], int]
    marks: list[_Mark] = field(default_factory=list)
    thread: int = field(default_factory=get_ident)
    open: bool = True


@dataclass(eq=False, slots=True)
class _Frame:
    """A stage under way, or where a collector began (no stage), inside another frame."""

    collector: _Collector
    outer: _Frame | None
    path: str = ""
    stage: stage | None = None
    start_ns: int = 0
    open: bool = True


_current: ContextVar[_Frame | None] = ContextVar("stopwav_stage", default=None)
# All of this process. A stage looks here first: torch.compile cannot trace a context variable, but an empty set.
_collectors: set[_Collector] = set()
# Whether torch.compile is tracing this code: PyTorch's own function, known once somebody measures where it is imported.
_is_compiling: Callable[[], bool] = bool


def _here() -> _Frame | None:
    """What is under way in this context and thread; a copied context may hold frames that are over."""
    frame = _current.get()
    while frame is not None and not (frame.open and frame.collector.open):
        frame = frame.outer
    if frame is None or frame.collector.thread != get_ident():
        return None
    return frame


class stage:
    """A context manager that names a part of the call being timed; does nothing when nobody measures.

    Nor inside what torch.compile makes one graph of: its parts are not executed one after the other.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if not _collectors or _is_compiling():
            return
        around = _here()
        if around is None:
            return
        path = f"{around.path}/{self._name}" if around.path else str(self._name)
        frame = _Frame(around.collector, around, path, self)
        _current.set(frame)
        frame.start_ns = frame.collector.now_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not _collectors or _is_compiling():
            return
        frame = _current.get()
        # Of one that was entered twice it is the inner. One that was entered before anybody measured is not there.
        while frame is not None and not (frame.stage is self and frame.open):
            frame = frame.outer
        if frame is None or not frame.collector.open or frame.collector.thread != get_ident():
            return
        collector = frame.collector
        try:
            collector.marks.append((frame.path, frame.start_ns, collector.now_ns()))
        except Exception:
            if kind is None:  # else a clock that fails as well, as that of a lost device does, would hide the cause
                raise
        finally:
            frame.open = False
            _current.set(_here())


@contextmanager
def collect_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """A list that fills with the marks of every stage passed through in this context."""
    global _is_compiling
    compiler = getattr(sys.modules.get("torch"), "compiler", None)  # None while torch itself is being imported
    if compiler is not None:
        _is_compiling = compiler.is_compiling
    collector = _Collector(now_ns)
    _collectors.add(collector)
    _current.set(_Frame(collector, _here()))
    try:
        yield collector.marks
    finally:
        collector.open = False
        _collectors.discard(collector)
        _current.set(_here())


@contextmanager
def overhear_marks(now_ns: Callable[[], int] = perf_counter_ns) -> Iterator[list[_Mark]]:
    """A list of the stages' marks, there when the context ends; whoever measures around it gets them by its clock."""
    around = _here()
    if around is None:
        with collect_marks(now_ns) as marks:
            yield marks
        return
    outer, prefix = around.collector, around.path
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
    """The path of the stage that is open here and now, or "" where none is."""
    frame = _here()
    return frame.path if frame is not None else ""


def under_way() -> object:
    """What is entered last here and not left: the same object as before, where nothing was entered or left since."""
    return _here()


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
