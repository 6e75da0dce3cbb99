"""Checks of an energy counter: its resolution, and a cross-check against power that is sampled while work goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from stopwav.measure.energy import Timekeeper
from stopwav.measure.meter_log import MeterLog
from stopwav.measure.meters import Counter, Meter, Meters

# Ten steps of a GPU's counter are a second; the median of their intervals is not moved by a step that was missed.
STEPS = 10
# A counter that takes fewer steps in so long is too coarse to wait for (a battery's).
WATCH_S = 2.0
# Readings in the time in which the counter usually advances once: its interval is known to a twentieth.
READINGS_PER_TICK = 20
# With two intervals, at least one is not that of a late reading.
_MIN_STEPS = 3

# NVML updates its power about every 100 ms, so that reading twice as often misses none; forty readings in the shortest
# window. A reading takes well below a millisecond, so the work loses less than 2 % to it, in a pass that times nothing.
SAMPLE_S = 0.05
# A quarter of the shortest window: a sampling thread blocked for longer (by a call that holds the interpreter lock) has
# missed too much.
LONGEST_GAP_S = 0.5

NO_CROSS_CHECK = "no cross-check: the hardware reports no power for it"


@dataclass(frozen=True)
class CounterResolution:
    """The smallest step of a counter in joules and the seconds between steps, as observed; or None and the reason."""

    step_j: float | None
    interval_s: float | None
    note: str = ""


def counter_resolutions(meters: Meters, clock: Timekeeper = time) -> dict[str, CounterResolution]:
    """Observe the resolution of each metered part; where a part has several counters, the coarsest one's."""
    resolutions: dict[str, CounterResolution] = {}
    for meter in meters.found:
        for counter in meter.counters:
            resolution, coarsest = _resolution(counter, meter.tick_s, clock), resolutions.get(counter.part)
            if coarsest is None or (resolution.step_j or 0.0) > (coarsest.step_j or 0.0):
                resolutions[counter.part] = resolution
    return resolutions


def _resolution(counter: Counter, tick_s: float, clock: Timekeeper) -> CounterResolution:
    steps_uj: list[int] = []
    times_s: list[float] = []
    begin_s = clock.perf_counter()
    try:
        last_uj = counter.read_uj()
        while len(steps_uj) < STEPS and clock.perf_counter() - begin_s < WATCH_S:
            clock.sleep(tick_s / READINGS_PER_TICK)
            now_uj, now_s = counter.read_uj(), clock.perf_counter()
            if spent_uj := counter.spent_uj(last_uj, now_uj):
                steps_uj.append(spent_uj)
                times_s.append(now_s)
            last_uj = now_uj
    except (OSError, ValueError) as error:
        return CounterResolution(None, None, f"the counter could not be read ({error})")
    if len(steps_uj) < _MIN_STEPS:
        note = f"the counter advanced {len(steps_uj)} times in {WATCH_S:g} s, needs {_MIN_STEPS}"
        return CounterResolution(None, None, note)
    interval_s = median(after - before for before, after in pairwise(times_s))
    return CounterResolution(min(steps_uj) / 1e6, interval_s, f"seen in {len(steps_uj)} steps while idle")


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
            except OSError as error:
                self.faults[index] = f"its power could not be read ({error})"

    def joules(self, part: str, begin_s: float, end_s: float) -> tuple[float | None, str]:
        """Return the joules of a part between two times, power being linear between samples; or None and the reason."""
        indices = [index for index, counter in enumerate(self.meter.counters) if counter.part == part]
        if any(self.meter.counters[index].read_w is None for index in indices):
            return None, NO_CROSS_CHECK
        for index in indices:
            if index in self.faults:
                return None, self.faults[index]
        inside_s = [time_s for time_s in self.times_s if begin_s < time_s < end_s]
        gap_s = max(after - before for before, after in pairwise([begin_s, *inside_s, end_s]))
        if gap_s > LONGEST_GAP_S:
            return None, f"its power was not read for {gap_s:.1f} s of the window: the work blocked the sampling"
        logs = [MeterLog(tuple(self.times_s), tuple(self.watts[index])) for index in indices]
        return sum(log.integral(begin_s, end_s) for log in logs), ""


@contextmanager
def sampled_power(meter: Meter, clock: Timekeeper) -> Iterator[PowerLog]:
    """Yield a log that a thread fills while the block runs, with a sample before its first line and after its last."""
    log = PowerLog(meter, clock)
    if all(counter.read_w is None for counter in meter.counters):
        yield log
        return
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_S):
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
