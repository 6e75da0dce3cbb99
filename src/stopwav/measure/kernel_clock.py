"""The clock for kernels: that of the device, and a cold L2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from stopwav.measure.clock import CudaClock, Timing

# Writing twice the size of the L2 leaves nothing of the call's inputs in it, whatever its replacement policy.
L2_TIMES = 2


@dataclass(frozen=True)
class KernelClock:
    """A `CudaClock` under which every call finds the L2 without its inputs."""

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

        size_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        torch.zeros(L2_TIMES * size_bytes, dtype=torch.uint8, device=self.device)
        return CudaClock(self.device).time(call)
