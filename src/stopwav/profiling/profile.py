"""The profile of one piece of code: its call samples added up, to be read at any time, from any thread."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.clock import Clock, CudaClock, WallClock
from stopwav.measure.stages import collect_and_forward_marks, spans_of, stage_totals
from stopwav.profiling.peaks import HOST, ForkLock, Peak, allocator_peaks

if TYPE_CHECKING:
    from pathlib import Path

    from stopwav.profiling.call_tracer import CallTracer
    from stopwav.stats import Estimate


# Reading the memory marks takes a fifth of a millisecond, outside the timed part. It is done for the first calls, which
# costs about 20 ms in all.
MEMORY_CALLS = 100
# After them it is done only for code that takes so long that reading adds a few percent at most.
MEMORY_FROM_S = 0.010

# One for all profiles, so that they can be copied and sent to another process; it is held for about a microsecond.
_lock = ForkLock()


@dataclass(frozen=True)
class StageTotal:
    """One stage over all calls: in how many of them it ran, and its seconds."""

    calls: int
    total_s: float

    @property
    def mean_s(self) -> float:
        """Seconds per call in which it ran."""
        return self.total_s / self.calls


@dataclass(frozen=True)
class PeakTotal:
    """Memory over all calls in which it was read: the highest peak, the most one added, and whether that is exact."""

    peak_bytes: int
    over_baseline_bytes: int
    calls: int
    exact: bool


class Profile:
    """The calls of one piece of code so far. It stores eight bytes per call and stage.

    Calls that raised are counted in `errors`, with their seconds in `failed_s`, and are in no other number. Recursive
    calls are counted in `inner_calls`: the outermost call's time includes theirs. Calls under torch.profiler, which
    slows them down, are counted in `traced_calls` alone.
    """

    def __init__(self, name: str, call_tracer: CallTracer | None = None) -> None:
        self.name = name
        # What traces some of its calls; None where none is traced.
        self.call_tracer = call_tracer
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        with _lock:
            self._walls_s = array("d")
            self._devices_s = array("d")
            self._stages: dict[str, array[float]] = {}
            self._host: PeakTotal | None = None
            self._allocated: PeakTotal | None = None
            self._total_s = 0.0
            self.errors = 0
            self.failed_s = 0.0
            self.inner_calls = 0
            self.traced_calls = 0

    def __str__(self) -> str:
        from stopwav.profiling.tables import call_sheet
        from stopwav.report.terminal import sheet_text

        return sheet_text(call_sheet([self]))

    def add(self, sample: CallSample) -> None:
        """Add one call."""
        with _lock:
            if sample.failed:
                self.errors += 1
                self.failed_s += sample.wall_s
                return
            self._walls_s.append(sample.wall_s)
            self._total_s += sample.wall_s
            if sample.device_s is not None:
                self._devices_s.append(sample.device_s)
            for path, seconds in sample.stages.items():
                self._stages.setdefault(path, array("d")).append(seconds)
            self._host = _highest(self._host, sample.host)
            self._allocated = _highest(self._allocated, sample.allocated)

    def add_inner_call(self) -> None:
        """Count one recursive call."""
        with _lock:
            self.inner_calls += 1

    def add_traced_call(self) -> None:
        """Count one call under torch.profiler."""
        with _lock:
            self.traced_calls += 1

    @property
    def traces(self) -> tuple[Path, ...]:
        """The traces of its calls so far."""
        return self.call_tracer.files if self.call_tracer else ()

    @property
    def reads_memory(self) -> bool:
        """Whether the next call's memory is read: yes for the first calls and for slow code."""
        return self.calls < MEMORY_CALLS or self._total_s > MEMORY_FROM_S * self.calls

    @property
    def calls(self) -> int:
        """The number of calls without an error."""
        return len(self._walls_s)

    @property
    def walls_s(self) -> tuple[float, ...]:
        """The wall seconds of each call, in the order in which they ended."""
        with _lock:
            return tuple(self._walls_s)

    @property
    def total_s(self) -> float:
        """The wall seconds of all calls added up; overlapping calls in threads add up to more than the elapsed time."""
        return self._total_s

    @property
    def mean_s(self) -> float | None:
        """Wall seconds per call."""
        return self._total_s / self.calls if self.calls else None

    @property
    def median(self) -> Estimate:
        """The median in wall seconds; no value below 6 calls."""
        return self._percentile(0.50)

    @property
    def p95(self) -> Estimate:
        """The 95th percentile in wall seconds; no value below 72 calls."""
        return self._percentile(0.95)

    @property
    def device_s(self) -> float | None:
        """The device seconds of all calls that were timed on a device; None where none was."""
        with _lock:
            return sum(self._devices_s) if self._devices_s else None

    @property
    def stages(self) -> dict[str, StageTotal]:
        """The time of each stage, by its path."""
        with _lock:
            return {path: StageTotal(len(values), sum(values)) for path, values in self._stages.items()}

    @property
    def host(self) -> PeakTotal | None:
        """Peak resident memory, None where it was not read."""
        return self._host

    @property
    def allocated(self) -> PeakTotal | None:
        """Peak memory of tensors on the CUDA device, None where there is none."""
        return self._allocated

    def _percentile(self, p: float) -> Estimate:
        from stopwav.stats import percentile

        return percentile(self.walls_s, p)


def _highest(so_far: PeakTotal | None, peak: Peak | None) -> PeakTotal | None:
    if peak is None:
        return so_far
    if so_far is None:
        return PeakTotal(peak.peak_bytes, peak.over_baseline_bytes, 1, peak.exact)
    return PeakTotal(
        max(so_far.peak_bytes, peak.peak_bytes),
        max(so_far.over_baseline_bytes, peak.over_baseline_bytes),
        so_far.calls + 1,
        so_far.exact and peak.exact,
    )


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
