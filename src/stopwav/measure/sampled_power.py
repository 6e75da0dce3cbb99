"""Power that a thread samples while work goes on: the integral of a sensor, and a cross-check of a counter."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from stopwav.measure.clock import Timekeeper
from stopwav.measure.meter import Meter
from stopwav.measure.meter_log import MeterLog

# A quarter of the shortest window: a sampling thread blocked for longer (by a call that holds the interpreter lock) has
# missed too much.
LONGEST_GAP_S = 0.5
# The same of a sensor that is sampled more slowly: three samples missed in a row.
LONGEST_GAP_SAMPLES = 4

NO_CROSS_CHECK = "no cross-check: the hardware reports no power for it"


@dataclass
class PowerLog:
    """Samples of the power that the counters of a meter report."""

    meter: Meter
    clock: Timekeeper
    times_s: list[float] = field(default_factory=list)
    watts: dict[int, list[float]] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)

    def sample(self) -> None:
        """Read the power of every counter that reports it; one that failed is not read again."""
        self.times_s.append(self.clock.perf_counter())
        for index, counter in enumerate(self.meter.counters):
            if counter.read_w is None or index in self.faults:
                continue
            try:
                self.watts.setdefault(index, []).append(counter.read_w())
            except (OSError, ValueError) as error:
                self.faults[index] = f"its power could not be read ({error})"

    def joules(self, part: str, begin_s: float, end_s: float) -> tuple[float | None, str]:
        """Return the joules of a part between two times, power being linear between samples; or None and the reason."""
        indices = [index for index, counter in enumerate(self.meter.counters) if counter.part == part]
        if any(self.meter.counters[index].read_w is None for index in indices):
            return None, NO_CROSS_CHECK
        for index in indices:
            if index in self.faults:
                return None, self.faults[index]
        gap_s = self.longest_gap_s(begin_s, end_s)
        if gap_s > max(LONGEST_GAP_S, LONGEST_GAP_SAMPLES * self.meter.sample_s):
            return None, f"its power was not read for {gap_s:.1f} s of the window: the work blocked the sampling"
        logs = [MeterLog(tuple(self.times_s), tuple(self.watts[index])) for index in indices]
        return sum(log.integral(begin_s, end_s) for log in logs), ""

    def sample_count(self, begin_s: float, end_s: float) -> int:
        """Return how many samples were taken between two times."""
        return sum(begin_s < time_s < end_s for time_s in self.times_s)

    def longest_gap_s(self, begin_s: float, end_s: float) -> float:
        """Return the longest time between two times in which nothing was sampled."""
        inside_s = [time_s for time_s in self.times_s if begin_s < time_s < end_s]
        return max(after - before for before, after in pairwise([begin_s, *inside_s, end_s]))


@contextmanager
def sampled_power(meter: Meter, clock: Timekeeper) -> Iterator[PowerLog]:
    """Yield a log that a thread fills while the block runs, with a sample before its first line and after its last."""
    log = PowerLog(meter, clock)
    if all(counter.read_w is None for counter in meter.counters):
        yield log
        return
    done = threading.Event()

    def sample() -> None:
        while not done.wait(meter.sample_s):
            log.sample()

    thread = threading.Thread(target=sample, name="stopwav-power", daemon=True)
    log.sample()
    thread.start()
    try:
        yield log
    finally:
        done.set()
        thread.join()
        log.sample()
