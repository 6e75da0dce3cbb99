"""Clocks: what times one call. WallClock for the CPU, CudaClock for NVIDIA devices, FakeClock for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from stopwav.errors import StopwavError
from stopwav.measure.stages import Span, collect_marks, spans_of, stage_totals

# The last stretch before a deadline is spun, not slept: a sleeping process wakes late by 50 µs to 1 ms on Linux.
SPIN_NS = 1_000_000


@dataclass(frozen=True)
class Timing:
    """What one call took: wall seconds, device seconds where there is a device, the stages inside, and its result."""

    wall_s: float
    device_s: float | None
    spans: tuple[Span, ...]
    result: Any

    @property
    def stages(self) -> dict[str, float]:
        """Seconds per stage path."""
        return stage_totals(self.spans)


class Clock(Protocol):
    """Something that times calls and waits for deadlines."""

    def now_ns(self) -> int: ...

    def wait_until_ns(self, deadline_ns: int, *, asleep: bool = False) -> None: ...

    def time(self, call: Callable[[], object]) -> Timing: ...


@dataclass(frozen=True)
class WallClock:
    """Times by `perf_counter_ns`."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment."""
        return time.perf_counter_ns()

    def wait_until_ns(self, deadline_ns: int, *, asleep: bool = False) -> None:
        """Return at the deadline, or at once when it has passed; the core stays awake unless it may sleep."""
        ahead = deadline_ns - time.perf_counter_ns()
        if asleep and ahead > SPIN_NS:
            time.sleep((ahead - SPIN_NS) / 1e9)
        while time.perf_counter_ns() < deadline_ns:
            pass

    def time(self, call: Callable[[], object]) -> Timing:
        """The timing of one call."""
        with collect_marks() as marks:
            start_ns = time.perf_counter_ns()
            result = call()
            end_ns = time.perf_counter_ns()
        return Timing((end_ns - start_ns) / 1e9, None, spans_of(marks, start_ns), result)


@dataclass(frozen=True)
class CudaClock:
    """Times by the wall around a synchronised device, with the device's own events beside it."""

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
        """Nanoseconds since some fixed moment, after the device has finished."""
        import torch

        torch.cuda.synchronize(self.device)
        return time.perf_counter_ns()

    def wait_until_ns(self, deadline_ns: int, *, asleep: bool = False) -> None:
        """Return at the deadline, or at once when it has passed; the core stays awake unless it may sleep."""
        WallClock().wait_until_ns(deadline_ns, asleep=asleep)

    def time(self, call: Callable[[], object]) -> Timing:
        """The timing of one call: a user waits for the wall time, so that is the first number.

        A stage is by events too: waiting for the device at its ends would change what is timed.
        """
        import torch

        from stopwav.measure.cuda_events import borrowed_events

        # Events belong to a device's stream: recorded elsewhere they would time nothing.
        with torch.cuda.device(self.device), borrowed_events(self.device) as events:
            events.begin()
            start_ns = time.perf_counter_ns()
            with collect_marks(events.mark) as marks:
                events.mark()
                result = call()
            events.end()
            end_ns = time.perf_counter_ns()
            at_ns = events.times_ns()
        spans = spans_of([(path, at_ns[first], at_ns[last]) for path, first, last in marks], 0)
        return Timing((end_ns - start_ns) / 1e9, at_ns[-1] / 1e9, spans, result)


class FakeClock:
    """A clock that moves only when told to, so that schedules are tested without waiting."""

    def __init__(self) -> None:
        self._now_ns = 0

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self._now_ns += round(seconds * 1e9)

    def now_ns(self) -> int:
        """Nanoseconds since the clock was made."""
        return self._now_ns

    def wait_until_ns(self, deadline_ns: int, *, asleep: bool = False) -> None:
        """Move on to the deadline, or stay when it has passed."""
        self._now_ns = max(self._now_ns, deadline_ns)

    def time(self, call: Callable[[], object]) -> Timing:
        """The timing of one call, which advances this clock itself."""
        with collect_marks(self.now_ns) as marks:
            start_ns = self._now_ns
            result = call()
        return Timing((self._now_ns - start_ns) / 1e9, None, spans_of(marks, start_ns), result)
