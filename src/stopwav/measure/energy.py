"""Energy of a call over a window of seconds, by counters or sampled power: gross and net of idle, part by part."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from stopwav.measure.clock import Timekeeper
from stopwav.measure.meter import Counter, Meter, Meters, NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.sampled_power import PowerLog, sampled_power

__all__ = ["EnergyReading", "PartEnergy", "Window", "find_meters", "measure_energy", "measure_window"]

# Two seconds are twenty ticks of the slowest counter of a GPU or CPU: its resolution is then at most 5 % of the window.
MIN_WINDOW_S = 2.0
# As long as the shortest window of work, so that both have the same resolution.
IDLE_S = 2.0
IDLE_NAP_S = 0.05  # long enough that waking up costs next to nothing, and half a tick of a GPU's counter
# Long windows are read this often, so that a counter that wraps (RAPL, after minutes at the earliest) wraps at most
# once between two readings.
READ_EVERY_S = 1.0
# How many ticks to wait for a counter to move before the window opens; one that does not move for so long is stuck.
TICKS_TO_WAIT = 3

EVERY_PART = ("gpu", "cpu package", "dram")


@dataclass(frozen=True)
class PartEnergy:
    """Energy of one part over the window; net is gross minus the energy of idling."""

    gross_j: float
    idle_w: float | None
    net_j: float | None


@dataclass(frozen=True)
class EnergyReading:
    """The energy of a window, part by part; a part without a number is missing, and the note says why."""

    source: str
    parts: Mapping[str, PartEnergy]
    total: PartEnergy | None
    window_s: float
    iterations: int
    note: str | None = None

    @property
    def gross_j(self) -> float | None:
        """Joules of the window, where every part has a number."""
        return self.total.gross_j if self.total else None

    @property
    def net_j(self) -> float | None:
        """Joules of the window net of idling, where every part has a number."""
        return self.total.net_j if self.total else None

    def mean_w(self, part: str) -> float:
        """Mean gross power of a part, in watts."""
        return self.parts[part].gross_j / self.window_s


def measure_energy(
    call: Callable[[], object],
    meter: Meter | NoMeter | Meters,
    *,
    min_window_s: float = MIN_WINDOW_S,
    idle_s: float = IDLE_S,
    whole: Collection[str] = EVERY_PART,
    clock: Timekeeper = time,
) -> EnergyReading:
    """Measure the energy of a call, repeated until the window is long enough; without a meter it is not run.

    A call that starts work on a device must wait for it. `whole` names the parts that make up the machine: there is a
    total only with all of them. `measure_energy(call, find_meters())` reads every meter and fills in `whole`.
    """
    if isinstance(meter, Meters):
        whole, meter = meter.whole, meter.joined()
    if isinstance(meter, NoMeter):
        return EnergyReading(meter.source, {}, None, 0.0, 0, f"no energy: {meter.reason}")
    idle = measure_window(lambda: clock.sleep(IDLE_NAP_S), meter, max(idle_s, meter.min_window_s), clock)
    work = measure_window(call, meter, max(min_window_s, meter.min_window_s), clock)
    return _reading(work, idle, whole)


def _reading(work: Window, idle: Window, whole: Collection[str]) -> EnergyReading:
    """Return the energy of the work from two windows, with a reason for each missing number."""
    parts: dict[str, PartEnergy] = {}
    notes: list[str] = []
    for part in work.meter.parts:
        gross_j, reason = work.joules(part)
        if gross_j is None:
            notes.append(f"{part}: no value, {reason}")
            continue
        idle_j, reason = idle.joules(part)
        if idle_j is None:
            notes.append(f"{part}: no net value, while idle {reason}")
        parts[part] = _part(gross_j, None if idle_j is None else idle_j / idle.seconds, work.seconds)
    total = _total(parts, whole, work.seconds)
    if total is None and whole:
        notes.append("no total without " + ", ".join(part for part in whole if part not in parts))
    return EnergyReading(work.meter.source, parts, total, work.seconds, work.iterations, "; ".join(notes) or None)


@dataclass
class Window:
    """The energy of a meter's parts since the window opened: by their counters, or by power sampled meanwhile."""

    meter: Meter
    power: PowerLog
    last_uj: list[int | None] = field(default_factory=list)
    spent_uj: list[int] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    # When it opened, by its own clock.
    opened_s: float = 0.0
    seconds: float = 0.0
    iterations: int = 0

    def open(self) -> None:
        """Start counting from zero now."""
        self.spent_uj = [0] * len(self.meter.counters)
        self.last_uj = [self._read(index, counter) for index, counter in enumerate(self.meter.counters)]

    def update(self) -> bool:
        """Read every counter, add up what it counted, and return whether any moved."""
        moved = False
        for index, counter in enumerate(self.meter.counters):
            before_uj, after_uj = self.last_uj[index], self._read(index, counter)
            if before_uj is None or after_uj is None:
                continue
            spent_uj = counter.spent_uj(before_uj, after_uj)
            if spent_uj is None:
                self.faults[index] = "the counter went back"
                continue
            moved = moved or spent_uj > 0
            self.spent_uj[index] += spent_uj
            self.last_uj[index] = after_uj
        return moved

    def joules(self, part: str) -> tuple[float | None, str]:
        """Return the joules of a part, or None and the reason: it needs all of its counters to work and to move."""
        if self.meter.has_only_power(part):
            return self.sampled_joules(part)
        spent_uj = 0
        for index, counter in enumerate(self.meter.counters):
            if counter.part != part:
                continue
            if index in self.faults:
                return None, self.faults[index]
            if self.spent_uj[index] == 0:
                return None, f"the counter did not advance in {self.seconds:.1f} s"
            spent_uj += self.spent_uj[index]
        return spent_uj / 1e6, ""

    def sampled_joules(self, part: str) -> tuple[float | None, str]:
        """Return the integral of a part's sampled power, or None and the reason."""
        return self.power.joules(part, self.opened_s, self.opened_s + self.seconds)

    def _read(self, index: int, counter: Counter) -> int | None:
        """Read a counter; None once it has failed, and where there is only power."""
        if index in self.faults or counter.read_uj is None:
            return None
        try:
            return counter.read_uj()
        except (OSError, ValueError) as error:
            self.faults[index] = f"the counter could not be read ({error})"
            return None


def measure_window(step: Callable[[], object], meter: Meter, min_window_s: float, clock: Timekeeper) -> Window:
    """Repeat a step over a window that opens on a tick and, once long enough, closes after a step with a tick."""
    with sampled_power(meter, clock) as power:
        return _counted_window(step, Window(meter, power), min_window_s, clock)


def _counted_window(step: Callable[[], object], window: Window, min_window_s: float, clock: Timekeeper) -> Window:
    meter = window.meter
    window.open()
    waited_s, pause_s = 0.0, meter.tick_s / 20
    while not window.update() and waited_s < TICKS_TO_WAIT * meter.tick_s:
        clock.sleep(pause_s)
        waited_s += pause_s
    window.open()
    window.opened_s = start_s = read_s = clock.perf_counter()
    while True:
        step()
        window.iterations += 1
        now_s = clock.perf_counter()
        window.seconds = now_s - start_s
        over_s = window.seconds - min_window_s
        if over_s < 0 and now_s - read_s < READ_EVERY_S:
            continue
        read_s = now_s
        if (window.update() and over_s >= 0) or over_s >= TICKS_TO_WAIT * meter.tick_s:
            return window


def _part(gross_j: float, idle_w: float | None, window_s: float) -> PartEnergy:
    """Return a part's energy; net is left negative when the work drew less than idling."""
    return PartEnergy(gross_j, idle_w, None if idle_w is None else gross_j - idle_w * window_s)


def _total(parts: Mapping[str, PartEnergy], whole: Collection[str], window_s: float) -> PartEnergy | None:
    """Return the sum over the whole machine, or None when a part of it has no number."""
    if "battery" in parts:
        return parts["battery"]
    if not whole or any(part not in parts for part in whole):
        return None
    idle = [parts[part].idle_w for part in whole]
    idle_w = None if None in idle else math.fsum(watts for watts in idle if watts is not None)
    return _part(math.fsum(parts[part].gross_j for part in whole), idle_w, window_s)
