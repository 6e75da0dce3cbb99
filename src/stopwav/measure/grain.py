"""How finely an energy counter counts: the smallest step seen, and how often it takes one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stopwav.measure.energy import Timekeeper
from stopwav.measure.meters import Counter, Meters

# Ten steps of a GPU's counter are a second; the middle one of their intervals is not moved by one that was missed.
STEPS = 10
# A counter that does not take its steps in so long is too coarse to wait for (a battery's).
LOOK_S = 2.0
# How often a counter is looked at in the time that it usually takes to advance: its interval is known to a twentieth.
LOOKS_PER_TICK = 20
# Two intervals are the fewest of which one need not be the one in which the look was late.
_FEWEST_STEPS = 3


@dataclass(frozen=True)
class Grain:
    """The smallest step of a counter in joules and the seconds between steps, as seen; or None and why."""

    step_j: float | None
    interval_s: float | None
    note: str = ""


def find_grains(meters: Meters, clock: Timekeeper = time) -> dict[str, Grain]:
    """The grain of each metered part, looked at now; of several counters of a part that with the largest step seen."""
    grains: dict[str, Grain] = {}
    for meter in meters.found:
        for counter in meter.counters:
            one, known = _grain(counter, meter.tick_s, clock), grains.get(counter.part)
            if known is None or (one.step_j or 0.0) > (known.step_j or 0.0):
                grains[counter.part] = one
    return grains


def _grain(counter: Counter, tick_s: float, clock: Timekeeper) -> Grain:
    steps_uj: list[int] = []
    moments_s: list[float] = []
    begin_s = clock.perf_counter()
    try:
        last_uj = counter.read_uj()
        while len(steps_uj) < STEPS and clock.perf_counter() - begin_s < LOOK_S:
            clock.sleep(tick_s / LOOKS_PER_TICK)
            now_uj, now_s = counter.read_uj(), clock.perf_counter()
            if spent_uj := counter.spent_uj(last_uj, now_uj):
                steps_uj.append(spent_uj)
                moments_s.append(now_s)
            last_uj = now_uj
    except (OSError, ValueError) as error:
        return Grain(None, None, f"the counter could not be read ({error})")
    if len(steps_uj) < _FEWEST_STEPS:
        return Grain(None, None, f"the counter advanced {len(steps_uj)} times in {LOOK_S:g} s, needs {_FEWEST_STEPS}")
    interval_s = median(after - before for before, after in pairwise(moments_s))
    return Grain(min(steps_uj) / 1e6, interval_s, f"seen in {len(steps_uj)} steps while idle")
