"""What was seen of one piece of code: its passages added up, read at any time, from any thread."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stopwav.profiling.fork_lock import ForkLock
from stopwav.profiling.passage import Passage
from stopwav.profiling.peaks import Peak

if TYPE_CHECKING:
    from stopwav.stats import Estimate

# Reading the marks takes a fifth of a millisecond, outside the timed part. The first calls always have it, which costs
# about 20 ms in all.
MEMORY_CALLS = 100
# After them only code that takes so long that reading adds a few percent at the most.
MEMORY_FROM_S = 0.010

# One for all profiles, so that they can be copied and sent to another process; it is held for a microsecond.
_lock = ForkLock()


@dataclass(frozen=True)
class StageTotal:
    """One stage over all calls: in how many of them it was passed, and its seconds."""

    calls: int
    total_s: float

    @property
    def mean_s(self) -> float:
        """Seconds per call that passed it."""
        return self.total_s / self.calls


@dataclass(frozen=True)
class PeakTotal:
    """Memory over all calls that were read: the highest peak, the most one added, and whether none can be missed."""

    peak_bytes: int
    over_baseline_bytes: int
    calls: int
    exact: bool


class Profile:
    """What was seen of one piece of code so far. It keeps eight bytes for each call and stage.

    Calls that raised are counted as `errors`, with their seconds in `failed_s`, and are in no other number. Calls of a
    function inside itself are counted as `inner_calls`: the outermost call's time holds theirs.
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
        from stopwav.profiling.call_sheet import call_sheet
        from stopwav.report.sheet import sheet_text

        return sheet_text(call_sheet([self]))

    def add(self, passage: Passage) -> None:
        """Count one passage."""
        with _lock:
            if passage.failed:
                self.errors += 1
                self.failed_s += passage.wall_s
                return
            self._walls_s.append(passage.wall_s)
            self._total_s += passage.wall_s
            if passage.device_s is not None:
                self._devices_s.append(passage.device_s)
            for path, seconds in passage.stages.items():
                self._stages.setdefault(path, array("d")).append(seconds)
            self._host = _highest(self._host, passage.host)
            self._allocated = _highest(self._allocated, passage.allocated)

    def add_inner_call(self) -> None:
        """Count one call of the function inside itself."""
        with _lock:
            self.inner_calls += 1

    @property
    def reads_memory(self) -> bool:
        """Whether the next call's memory is read: the first calls' is, and that of code that takes long."""
        return self.calls < MEMORY_CALLS or self._total_s > MEMORY_FROM_S * self.calls

    @property
    def calls(self) -> int:
        """Calls that ended without an error."""
        return len(self._walls_s)

    @property
    def walls_s(self) -> tuple[float, ...]:
        """The wall seconds of each call, in the order in which they ended."""
        with _lock:
            return tuple(self._walls_s)

    @property
    def total_s(self) -> float:
        """The wall seconds of all calls together; calls that overlap in threads add up to more than passed."""
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
        """The device's seconds over all calls that were timed on one, None where none was."""
        with _lock:
            return sum(self._devices_s) if self._devices_s else None

    @property
    def stages(self) -> dict[str, StageTotal]:
        """What each stage took, by its path."""
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
