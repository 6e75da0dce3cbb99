"""The clock for kernels: the device's own events, and a cold L2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from stopwav.measure.clock import CudaClock, Timing

# Writing twice the size of the L2 leaves nothing of the call's inputs in it, whatever its replacement policy.
L2_TIMES = 2


@dataclass(frozen=True)
class KernelClock(CudaClock):
    """A `CudaClock` for which every call finds the L2 without its inputs."""

    # The sampler repeats no call inside a value: the second would find the L2 warm.
    one_at_a_time: ClassVar[bool] = True

    def time(self, call: Callable[[], object]) -> Timing:
        """The timing of one call; `device_s` and the stages are the device's, `wall_s` is what the host waited."""
        import torch

        size_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        torch.zeros(L2_TIMES * size_bytes, dtype=torch.uint8, device=self.device)
        return super().time(call)
