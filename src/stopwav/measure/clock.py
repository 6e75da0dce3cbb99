"""Clocks that time one call (WallClock for the CPU, CudaClock and KernelClock for NVIDIA devices), and pacing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from stopwav.errors import StopwavError
from stopwav.measure.stages import Span, collect_marks, spans_of, stage_totals

# The last part before a deadline is spun, not slept: a sleeping process wakes late by 50 µs to 1 ms on Linux.
SPIN_NS = 1_000_000
# Writing twice the size of the L2 leaves none of the call's inputs in it, whatever its replacement policy.
L2_TIMES = 2


@dataclass(frozen=True)
class Timing:
    """The timing of one call: wall seconds, device seconds where there is a device, its stages, and its result."""

    wall_s: float
    device_s: float | None
    spans: tuple[Span, ...]
    result: Any

    @property
    def stages(self) -> dict[str, float]:
        """Seconds per stage path."""
        return stage_totals(self.spans)


class Timekeeper(Protocol):
    """The clock of a window or a wait: the `time` module, or a fake that does not wait."""

    def perf_counter(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class Clock(Protocol):
    """Times calls and waits for deadlines."""

    def now_ns(self) -> int: ...

    def wait_until_ns(self, deadline_ns: int, *, may_sleep: bool = False) -> None: ...

    def time(self, call: Callable[[], object]) -> Timing: ...


@dataclass(frozen=True)
class WallClock:
    """Times by `perf_counter_ns`."""

    def now_ns(self) -> int:
        """Return the nanoseconds since some fixed moment."""
        return time.perf_counter_ns()

    def wait_until_ns(self, deadline_ns: int, *, may_sleep: bool = False) -> None:
        """Return at the deadline, or at once if it has passed; the core stays awake unless `may_sleep`."""
        ahead = deadline_ns - time.perf_counter_ns()
        if may_sleep and ahead > SPIN_NS:
            time.sleep((ahead - SPIN_NS) / 1e9)
        while time.perf_counter_ns() < deadline_ns:
            pass

    def time(self, call: Callable[[], object]) -> Timing:
        """Time one call."""
        with collect_marks() as marks:
            start_ns = time.perf_counter_ns()
            result = call()
            end_ns = time.perf_counter_ns()
        return Timing((end_ns - start_ns) / 1e9, None, spans_of(marks, start_ns), result)


@dataclass(frozen=True)
class CudaClock:
    """Times by the wall clock around a synchronised device, and by the device's own events."""

    device: str = "cuda"

    def __post_init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise StopwavError(
                "timing on CUDA needs PyTorch, which is not installed: pip install 'stopwav[torch]'"
            ) from error
        if not torch.cuda.is_available():
            raise StopwavError(f"device {self.device!r}: PyTorch sees no CUDA device here; use device=cpu")

    def now_ns(self) -> int:
        """Wait for the device and return the nanoseconds since some fixed moment."""
        import torch

        torch.cuda.synchronize(self.device)
        return time.perf_counter_ns()

    def wait_until_ns(self, deadline_ns: int, *, may_sleep: bool = False) -> None:
        """Return at the deadline, or at once if it has passed; the core stays awake unless `may_sleep`."""
        WallClock().wait_until_ns(deadline_ns, may_sleep=may_sleep)

    def time(self, call: Callable[[], object]) -> Timing:
        """Time one call; wall time comes first, because that is what a user waits for.

        Stages are timed by events too: waiting for the device at their ends would change what is timed.
        """
        import torch

        # Events belong to a device's stream: recorded elsewhere they would time nothing.
        with torch.cuda.device(self.device), _borrowed_events(self.device) as events:
            events.begin()
            start_ns = time.perf_counter_ns()
            with collect_marks(events.mark) as marks:
                events.mark()
                result = call()
            events.end()
            end_ns = time.perf_counter_ns()
            times_ns = events.times_ns()
        spans = spans_of([(path, times_ns[first], times_ns[last]) for path, first, last in marks], 0)
        return Timing((end_ns - start_ns) / 1e9, times_ns[-1] / 1e9, spans, result)


@dataclass(frozen=True)
class KernelClock:
    """A `CudaClock` that clears the L2 cache before each call, so that none finds its inputs there."""

    device: str = "cuda"
    # The sampler repeats no call inside a value: the second would find the L2 warm.
    one_at_a_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        CudaClock(self.device)  # raises where PyTorch or the device is missing

    def now_ns(self) -> int:
        """Wait for the device and return the nanoseconds since some fixed moment."""
        return CudaClock(self.device).now_ns()

    def wait_until_ns(self, deadline_ns: int, *, may_sleep: bool = False) -> None:
        """Return at the deadline, or at once if it has passed; the core stays awake unless `may_sleep`."""
        WallClock().wait_until_ns(deadline_ns, may_sleep=may_sleep)

    def time(self, call: Callable[[], object]) -> Timing:
        """Time one call: `device_s` and stages by the device, `wall_s` by the host's wait."""
        import torch

        size_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        torch.zeros(L2_TIMES * size_bytes, dtype=torch.uint8, device=self.device)
        return CudaClock(self.device).time(call)


def clock_for(device: str) -> WallClock | CudaClock:
    """Return the clock that times calls on the device."""
    return CudaClock(device) if device.startswith("cuda") else WallClock()


class CudaEvents:
    """The events of one call or step, recorded as cheaply as PyTorch allows: the device may be waiting for the host."""

    def __init__(self, index: int) -> None:
        import torch

        self._cuda = torch.cuda
        self._index = index
        # Creating an event or a stream object takes as long as recording an event, so both are reused.
        self._events: list[Any] = []
        self._used = 0
        self._current_raw_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self._raw_stream: int | None = None
        self._stream: Any = None

    def begin(self) -> None:
        """Wait for the device, and make the events of the last call available again."""
        self._cuda.synchronize(self._index)
        self._used = 0

    def record(self) -> Any:
        """Record an event after the work submitted to the current stream so far."""
        if self._used == len(self._events):
            self._events.append(self._cuda.Event(enable_timing=True))
        event = self._events[self._used]
        self._used += 1
        raw_stream = self._current_raw_stream(self._index)
        if raw_stream != self._raw_stream:
            self._raw_stream, self._stream = raw_stream, self._cuda.current_stream(self._index)
        event.record(self._stream)
        return event

    def mark(self) -> int:
        """Record an event and return its position among those of the call."""
        position = self._used
        self.record()
        return position

    def times_ns(self) -> list[int]:
        """Return when the device reached each event, since the first; it must have reached them all."""
        return [round(1e6 * self._events[0].elapsed_time(event)) for event in self._events[: self._used]]

    def end(self) -> Any:
        """Record the last event, wait for the device, and return the event."""
        event = self.record()
        self._cuda.synchronize(self._index)
        return event


def device_index(device: str) -> int:
    """Return the number of a CUDA device; that of the current one where the name has none."""
    import torch

    index = torch.device(device).index
    return torch.cuda.current_device() if index is None else index


# Events of finished calls, for reuse. A call may time another inside it, so each has its own while it lasts.
_idle: dict[int, list[CudaEvents]] = {}


@contextmanager
def _borrowed_events(device: str) -> Iterator[CudaEvents]:
    """Lend the events for one call on the device."""
    index = device_index(device)
    idle = _idle.setdefault(index, [])
    try:
        events = idle.pop()
    except IndexError:
        events = CudaEvents(index)
    try:
        yield events
    finally:
        idle.append(events)


Pace = Literal["virtual", "real", "idle"]


@dataclass(frozen=True)
class PacedCall:
    """One call: when it was due, started and done, in seconds of the stream, its stages and its result."""

    due_s: float
    start_s: float
    done_s: float
    spans: tuple[Span, ...]
    result: Any


def feed(
    dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock, pace: Pace
) -> Iterator[PacedCall]:
    """Make the calls in order and yield each. A call that raises ends the stream; those yielded before it count."""
    if pace == "virtual":
        return _feed_virtual(dues_s, calls, clock)
    return _feed_by_clock(dues_s, calls, clock, may_sleep=pace == "idle")


def _feed_virtual(dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock) -> Iterator[PacedCall]:
    done_s = 0.0
    for due_s, call in zip(dues_s, calls, strict=True):
        timing = clock.time(call)
        start_s = max(due_s, done_s)
        done_s = start_s + timing.wall_s
        yield PacedCall(due_s, start_s, done_s, timing.spans, timing.result)


def _feed_by_clock(
    dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock, *, may_sleep: bool
) -> Iterator[PacedCall]:
    origin_ns = clock.now_ns()
    for due_s, call in zip(dues_s, calls, strict=True):
        # Absolute deadlines: a late chunk does not delay the ones after it.
        clock.wait_until_ns(origin_ns + round(due_s * 1e9), may_sleep=may_sleep)
        start_s = max(due_s, (clock.now_ns() - origin_ns) / 1e9)
        timing = clock.time(call)
        yield PacedCall(due_s, start_s, start_s + timing.wall_s, timing.spans, timing.result)
