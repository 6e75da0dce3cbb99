"""One call sample: the time, the stages and the peak memory of one call of profiled code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.clock import Clock, CudaClock, WallClock
from stopwav.measure.stages import collect_and_forward_marks, spans_of, stage_totals
from stopwav.profiling.peaks import HOST, Peak, allocator_peaks

_WALL = WallClock()


@dataclass(frozen=True)
class CallSample:
    """One call: wall and device seconds, seconds per stage, peaks, and whether it raised."""

    wall_s: float
    device_s: float | None
    stages: dict[str, float]
    host: Peak | None
    allocated: Peak | None
    failed: bool


def check_clock(clock: object) -> None:
    """Raise if what the user gave as a clock is not one."""
    if clock is not None and (isinstance(clock, type) or not hasattr(clock, "now_ns")):
        raise StopwavError(f"clock={clock!r} is not a clock; give one such as stopwav.measure.clock.WallClock()")


def default_clock() -> Clock:
    """Return the clock of the CUDA device if PyTorch is already imported and has used one, else the wall clock."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # None while torch itself is being imported
    if cuda is not None and cuda.is_initialized():
        return _cuda_clock(int(cuda.current_device()))
    return _WALL


@cache
def _cuda_clock(index: int) -> CudaClock:
    return CudaClock(f"cuda:{index}")


def in_worker() -> bool:
    """Return whether this is a process in which stopwav itself measures."""
    worker: Any = sys.modules.get("stopwav.measure.process")
    return worker is not None and bool(worker.serving)


@contextmanager
def sample_call(record: Callable[[CallSample], None], clock: Clock, memory: bool) -> Iterator[None]:
    """Measure the block and pass its sample to `record`, also when it raises; the error is not swallowed.

    Memory is read before the clock starts and after it stops, but not in stopwav's own workers: the marks are theirs.
    """
    memory = memory and not in_worker()
    cuda = clock if isinstance(clock, CudaClock) else None
    host = HOST.begin() if memory else None
    allocator = allocator_peaks(cuda.device) if memory and cuda else None
    allocated = allocator.begin() if allocator else None
    start_ns = end_ns = 0
    marks: list[tuple[str, int, int]] = []
    device_s: float | None = None
    failed = True
    try:
        with collect_and_forward_marks(clock.now_ns) as marks:
            start_ns = clock.now_ns()
            start_event = _event(cuda)
            try:
                yield
                failed = False
            finally:
                try:
                    end_event = _event(cuda)
                    end_ns = clock.now_ns()
                    device_s = start_event.elapsed_time(end_event) / 1e3 if cuda else None
                except RuntimeError:
                    if not failed:
                        raise
                    end_ns = time.perf_counter_ns()  # a lost device has no time; the call's own error is raised
    finally:
        peak = HOST.end(host) if host else None
        allocator_peak = allocator.end(allocated) if allocator and allocated else None
        stages = stage_totals(spans_of(marks, start_ns)) if marks else {}
        record(CallSample((end_ns - start_ns) / 1e9, device_s, stages, peak, allocator_peak, failed))


def _event(clock: CudaClock | None) -> Any:
    """Record an event on the device's current stream; None without a device."""
    if clock is None:
        return None
    import torch

    with torch.cuda.device(clock.device):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
    return event
