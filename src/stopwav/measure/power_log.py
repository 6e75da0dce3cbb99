"""Power sampled while work goes on: a second reading beside the energy counters of hardware that tells both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from stopwav.measure.energy import Timekeeper
from stopwav.measure.meter_log import MeterLog
from stopwav.measure.meters import Meter

# NVML renews its reading about every 100 ms, so that twice as often misses none; forty readings in the shortest window.
# A reading takes well below a millisecond, so the work loses less than 2 % to it, in a pass that times nothing.
SAMPLE_S = 0.05
# A quarter of the shortest window: a thread held up for longer (by a call that keeps the interpreter) has not watched.
LONGEST_GAP_S = 0.5

NO_SECOND_READING = "no second reading: nothing tells its power beside the counter"


@dataclass
class PowerLog:
    """What the counters of a meter say of their power, from time to time."""

    meter: Meter
    clock: Timekeeper
    times_s: list[float] = field(default_factory=list)
    watts: dict[int, list[float]] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)

    def sample(self) -> None:
        """Read every power that can be read; one that fails once is not asked again."""
        self.times_s.append(self.clock.perf_counter())
        for index, counter in enumerate(self.meter.counters):
            if counter.read_w is None or index in self.faults:
                continue
            try:
                self.watts.setdefault(index, []).append(counter.read_w())
            except OSError as error:
                self.faults[index] = f"its power could not be read ({error})"

    def joules(self, part: str, begin_s: float, end_s: float) -> tuple[float | None, str]:
        """Joules of a part between two moments, power taken as a straight line between samples; or None and why."""
        places = [index for index, counter in enumerate(self.meter.counters) if counter.part == part]
        if any(self.meter.counters[index].read_w is None for index in places):
            return None, NO_SECOND_READING
        for index in places:
            if index in self.faults:
                return None, self.faults[index]
        inside_s = [time_s for time_s in self.times_s if begin_s < time_s < end_s]
        gap_s = max(after - before for before, after in pairwise([begin_s, *inside_s, end_s]))
        if gap_s > LONGEST_GAP_S:
            return None, f"its power was not read for {gap_s:.1f} s of the window: the work held up the sampling"
        logs = [MeterLog(tuple(self.times_s), tuple(self.watts[index])) for index in places]
        return sum(log.integral(begin_s, end_s) for log in logs), ""


@contextmanager
def sampled_power(meter: Meter, clock: Timekeeper) -> Iterator[PowerLog]:
    """A log that a thread of its own fills while the block runs, from before its first line to after its last."""
    log = PowerLog(meter, clock)
    if all(counter.read_w is None for counter in meter.counters):
        yield log
        return
    over = threading.Event()

    def follow() -> None:
        while not over.wait(SAMPLE_S):
            log.sample()

    thread = threading.Thread(target=follow, name="power", daemon=True)
    log.sample()
    thread.start()
    try:
        yield log
    finally:
        over.set()
        thread.join()
        log.sample()
