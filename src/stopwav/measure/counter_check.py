"""The resolution of an energy counter: its smallest step, and the time between steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stopwav.measure.clock import Timekeeper
from stopwav.measure.meter import Counter, Meters

# Ten steps of a GPU's counter are a second; the median of their intervals is not moved by a step that was missed.
STEPS = 10
# A counter that takes fewer steps in so long is too coarse to wait for (a battery's).
WATCH_S = 2.0
# Readings in the time in which the counter usually advances once: its interval is known to a twentieth.
READINGS_PER_TICK = 20
# With two intervals, at least one is not that of a late reading.
_MIN_STEPS = 3


@dataclass(frozen=True)
class CounterResolution:
    """The smallest step of a counter in joules and the seconds between steps, as observed; or None and the reason."""

    step_j: float | None
    interval_s: float | None
    note: str = ""


def counter_resolutions(meters: Meters, clock: Timekeeper = time) -> dict[str, CounterResolution]:
    """Observe the resolution of each counted part; where a part has several counters, the coarsest one's."""
    resolutions: dict[str, CounterResolution] = {}
    for meter in meters.found:
        for counter in meter.counters:
            if counter.read_uj is None:
                continue
            resolution = _resolution(counter, counter.read_uj, meter.tick_s, clock)
            coarsest = resolutions.get(counter.part)
            if coarsest is None or (resolution.step_j or 0.0) > (coarsest.step_j or 0.0):
                resolutions[counter.part] = resolution
    return resolutions


def _resolution(counter: Counter, read_uj: Callable[[], int], tick_s: float, clock: Timekeeper) -> CounterResolution:
    steps_uj: list[int] = []
    times_s: list[float] = []
    begin_s = clock.perf_counter()
    try:
        last_uj = read_uj()
        while len(steps_uj) < STEPS and clock.perf_counter() - begin_s < WATCH_S:
            clock.sleep(tick_s / READINGS_PER_TICK)
            now_uj, now_s = read_uj(), clock.perf_counter()
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
