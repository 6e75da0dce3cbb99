"""The clock for kernels: device events around the call and at its stages, nothing synchronised inside, a cold L2."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from stopwav.measure.clock import CudaClock, Timing
from stopwav.measure.stages import collect_marks, spans_of

# Writing twice the size of the L2 leaves nothing of the call's inputs in it, whatever its replacement policy.
L2_TIMES = 2


@dataclass(frozen=True)
class KernelClock:
    """Times by events on the device. A stage is what the device did between its marks, not when the host came there.

    Where the host waits at every stage, as under `CudaClock`, the device runs dry in between, and a step of many small
    kernels looks slower than it is.
    """

    device: str = "cuda"
    # The sampler repeats no call inside a value: the second would find the L2 warm.
    one_at_a_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        CudaClock(self.device)  # says what is missing

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment, after the device has finished."""
        return CudaClock(self.device).now_ns()

    def wait_until_ns(self, deadline_ns: int, *, asleep: bool = False) -> None:
        """Return at the deadline, or at once when it has passed; the core stays awake unless it may sleep."""
        CudaClock(self.device).wait_until_ns(deadline_ns, asleep=asleep)

    def time(self, call: Callable[[], object]) -> Timing:
        """The timing of one call; `device_s` and the stages are the device's, `wall_s` is what the host waited."""
        import torch

        events: list[Any] = []

        def mark() -> int:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            events.append(event)
            return len(events) - 1

        with torch.cuda.device(self.device):
            self._flush()
            torch.cuda.synchronize(self.device)
            start_ns = time.perf_counter_ns()
            with collect_marks(mark) as marks:
                begin = mark()
                result = call()
                end = mark()
            torch.cuda.synchronize(self.device)
            end_ns = time.perf_counter_ns()
        at_ns = [round(1e6 * events[begin].elapsed_time(event)) for event in events]
        spans = spans_of([(path, at_ns[first], at_ns[last]) for path, first, last in marks], 0)
        return Timing((end_ns - start_ns) / 1e9, at_ns[end] / 1e9, spans, result)

    def _flush(self) -> None:
        import torch

        size_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        torch.zeros(L2_TIMES * size_bytes, dtype=torch.uint8, device=self.device)
