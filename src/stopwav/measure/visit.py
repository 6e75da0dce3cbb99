"""A visit: one workload measured inside a process, which may go on to others. First call, warm-up, values, then memory.

A process that visits one workload after the other loads what they share once. What a visit leaves behind must not be
counted as the next one's: a first call counts only in the visit that opened the process, and a peak of the host only
where no visit before it can have left more than it takes itself. Otherwise it is an upper bound, and says by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from stopwav.errors import Status
from stopwav.measure.clock import Clock, Timing, clock_for
from stopwav.measure.plan import Plan, Workload
from stopwav.measure.sampler import Samples, load_statistics, sample, time_calls

if TYPE_CHECKING:
    from stopwav.measure.energy import EnergyReading
    from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak, PeakMark

# A first call this long gives the peak of the host too: the kernel's mark costs it nothing, and a call that is made for
# its memory alone would take as long again. On a shorter one, what is set up once weighs more, and another is cheap.
LONG_CALL_S = 2.0
# The most that earlier visits may have left in the process, as a share of the loaded model, for its host peak to count:
# about as much as peaks of two fresh processes differ.
LEFTOVER_SHARE = 0.02


@dataclass(frozen=True)
class Round:
    """One fresh process: how it ended and, where it succeeded, its measurements."""

    index: int
    status: Status
    message: str = ""
    last_words: str = ""
    load_s: float | None = None
    samples: Samples | None = None
    memory: HostPeak | None = None
    cuda_memory: CudaPeak | None = None
    energy: EnergyReading | None = None
    # A throttled round is repeated once; both are kept.
    throttled: bool = False
    # The attribute `facts` of the workload's call: plain values, such as which model was loaded.
    facts: Mapping[str, Any] = field(default_factory=dict)
    # Whether it was the first in its process; a process may go on to other workloads.
    opened: bool = True
    # What earlier workloads of the process left in it, by which the peak of the host may be too high.
    leftover_bytes: int = 0
    # Of a run on a cluster, the machine: rounds of different ones are not compared with each other.
    machine: str = ""

    @property
    def median_s(self) -> float:
        """The median of this round's values."""
        assert self.samples is not None
        return median(self.samples.values_s)


class RoundRunner:
    """Runs a round of one workload inside its fresh process."""

    def __init__(self, workload: Workload, plan: Plan, device: str) -> None:
        self._workload, self._plan = workload, plan
        self._visitor = Visitor(device, plan.memory_limit_bytes)

    def run(self) -> Round:
        """Run the round."""
        return self._visitor.visit(self._workload.setup, self._plan)


class Visitor:
    """Measures calls inside its process, one after the other; `clock` times what they share."""

    def __init__(self, device: str, memory_limit_bytes: int | None) -> None:
        self._device = device
        if memory_limit_bytes is not None:
            from stopwav.measure.memory import limit_host_memory

            limit_host_memory(memory_limit_bytes)
        self.clock: Clock = clock_for(device)
        # Of the first visit, before its first call and without its input: None until then.
        self._loaded_bytes: int | None = None
        self._cuda_baseline: CudaMemory | None = None

    def visit(
        self, setup: Callable[[], Callable[[], object]], plan: Plan, *, is_largest: bool = False, peaks: bool = True
    ) -> Round:
        """Return a round of the call that `setup` makes; `opened` says whether it was the first of this process.

        `is_largest` says that its input is at least as large as that of any call before it: an allocator that keeps
        memory keeps none that this call would not take. The call may say how large its input is (`input_bytes`).
        Without `peaks` no call is made for memory, unless this visit opened the process.
        """
        from stopwav.measure.machine import throttle_count

        load_statistics()
        load = self.clock.time(setup)
        call: Any = load.result
        opened = self._loaded_bytes is None
        # Read before the first call, which may leave caches behind: both peaks are given over the loaded model.
        baseline_bytes, leftover_bytes = self._host_baseline(int(getattr(call, "input_bytes", 0)))
        if is_largest:
            leftover_bytes = 0
        self._release_device()
        before = throttle_count()
        mark = _mark()
        first = time_calls(call, 1, self.clock)
        first_peak = mark.peak(baseline_bytes)
        # What the call returned may be as large as the model's output: it is not kept while others are timed.
        first = Timing(first.wall_s, first.device_s, first.spans, None)
        samples = sample(call, self.clock, plan, first)
        after = throttle_count()
        takes_peaks = peaks or opened or is_largest
        memory = first_peak if first.wall_s >= LONG_CALL_S else None
        return Round(
            index=0,
            status="ok",
            load_s=load.wall_s,
            samples=samples,
            memory=_host_peak(call, baseline_bytes) if memory is None and takes_peaks else memory,
            leftover_bytes=leftover_bytes,
            cuda_memory=self._cuda_peak(call) if takes_peaks else None,
            energy=_energy(call) if plan.energy else None,
            throttled=before is not None and after is not None and after > before,
            facts=getattr(call, "facts", {}),
            opened=opened,
        )

    def _host_baseline(self, input_bytes: int) -> tuple[int, int]:
        """The memory of the loaded model with this input, and how much more than that is resident now."""
        from stopwav.measure.memory import host_baseline_bytes

        resident_bytes = host_baseline_bytes()
        if self._loaded_bytes is None:
            self._loaded_bytes = resident_bytes - input_bytes
            return resident_bytes, 0
        baseline_bytes = self._loaded_bytes + input_bytes
        leftover_bytes = resident_bytes - baseline_bytes
        return baseline_bytes, leftover_bytes if leftover_bytes > LEFTOVER_SHARE * baseline_bytes else 0

    def _release_device(self) -> None:
        """Give what the allocator caches back to the device; the first time, remember what the model takes there."""
        if not self._device.startswith("cuda"):
            return
        from stopwav.measure.memory import cuda_memory

        now = cuda_memory(self._device)
        self._cuda_baseline = self._cuda_baseline or now

    def _cuda_peak(self, call: Callable[[], object]) -> CudaPeak | None:
        if self._cuda_baseline is None:
            return None
        from stopwav.measure.memory import measure_cuda_peak

        return measure_cuda_peak(call, self._device, self._cuda_baseline)


def _mark() -> PeakMark:
    from stopwav.measure.memory import set_peak_mark

    return set_peak_mark()


def _host_peak(call: Callable[[], object], baseline_bytes: int) -> HostPeak:
    from stopwav.measure.memory import measure_host_peak

    return measure_host_peak(call, baseline_bytes)


def _energy(call: Callable[[], object]) -> EnergyReading:
    from stopwav.measure.energy import measure_energy
    from stopwav.measure.meters import find_meters

    return measure_energy(call, find_meters())
