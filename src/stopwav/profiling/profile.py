"""The profile of one piece of code: its call samples added up, to be read at any time, from any thread."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stopwav.profiling.call_sample import CallSample
from stopwav.profiling.peaks import ForkLock, Peak

if TYPE_CHECKING:
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
    calls are counted in `inner_calls`: the outermost call's time includes theirs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
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

    def __str__(self) -> str:
        from stopwav.profiling.tables import call_sheet
        from stopwav.report.sheet import sheet_text

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
