"""Energy of work that repeats: window after window, each with its wall-clock time, so that an external log fits too."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stopwav.measure.energy import IDLE_NAP_S, IDLE_S, MIN_WINDOW_S, Timekeeper, Window, take_window
from stopwav.measure.meters import Meter, NoMeter
from stopwav.measure.power_log import PowerLog, sampled_power

# Most meters that log to a file do so once a second: ten readings a window.
EXTERNAL_WINDOW_S = 10.0
# The fewest windows that show a spread worth the name.
MIN_WINDOWS = 3
# Half-width of the 95 % interval of the mean over windows at which they end, as a share of the mean.
PRECISION = 0.05


@dataclass(frozen=True)
class WindowEnergy:
    """One window: when it began, in seconds since 1970, how long it was, and the joules of each part, or why none.

    Beside what the counters say stands what sampled power adds up to, or why it does not.
    """

    begin_s: float
    seconds: float
    iterations: int
    joules: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    sampled_joules: Mapping[str, float] = field(default_factory=dict)
    unsampled: Mapping[str, str] = field(default_factory=dict)

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.begin_s + self.seconds


def with_external(meter: Meter | NoMeter) -> Meter:
    """The meter, with windows long enough for an external one beside it; one without counters where there is none."""
    if isinstance(meter, NoMeter):
        return Meter("external meter", (), tick_s=0.0, min_window_s=EXTERNAL_WINDOW_S)
    return replace(meter, min_window_s=max(meter.min_window_s, EXTERNAL_WINDOW_S))


def idle_window(meter: Meter, *, clock: Timekeeper = time, epoch_s: Callable[[], float] = time.time) -> WindowEnergy:
    """What the machine takes while nothing is done."""
    window = take_window(lambda: clock.sleep(IDLE_NAP_S), meter, max(IDLE_S, meter.min_window_s), clock)
    return _energy(window, clock, epoch_s)


def work_windows(
    call: Callable[[], object],
    meter: Meter,
    *,
    time_s: float,
    precision: float = PRECISION,
    clock: Timekeeper = time,
    epoch_s: Callable[[], float] = time.time,
) -> list[WindowEnergy]:
    """The windows of a call that repeats, for so many seconds or until their mean is known to the precision.

    Each is at least as long as the meter needs, and there are three or more. Without counters nothing shows how well
    the mean is known, so the time is filled.
    """
    windows: list[WindowEnergy] = []
    opened_s: list[float] = []
    with sampled_power(meter, clock) as power:
        while len(windows) < MIN_WINDOWS or not (
            sum(one.seconds for one in windows) >= time_s
            or _is_known([_per_iteration(one) for one in windows], precision)
        ):
            window = take_window(call, meter, max(MIN_WINDOW_S, meter.min_window_s), clock)
            windows.append(_energy(window, clock, epoch_s))
            opened_s.append(window.opened_s)
    return [_with_sampled(window, power, begin_s) for window, begin_s in zip(windows, opened_s, strict=True)]


def _with_sampled(window: WindowEnergy, power: PowerLog, begin_s: float) -> WindowEnergy:
    """The window, with what sampled power adds up to between its ends; it began then by the clock of the samples."""
    joules, missing = {}, {}
    for part in power.meter.parts:
        found_j, why = power.joules(part, begin_s, begin_s + window.seconds)
        if found_j is None:
            missing[part] = why
        else:
            joules[part] = found_j
    return replace(window, sampled_joules=joules, unsampled=missing)


def _energy(window: Window, clock: Timekeeper, epoch_s: Callable[[], float]) -> WindowEnergy:
    # Where the two clocks stand to each other, taken anew for each window: wall-clock time may be corrected meanwhile.
    begin_s = window.opened_s + (epoch_s() - clock.perf_counter())
    joules, missing = {}, {}
    for part in window.meter.parts:
        found_j, why = window.joules(part)
        if found_j is None:
            missing[part] = why
        else:
            joules[part] = found_j
    return WindowEnergy(begin_s, window.seconds, window.iterations, joules, missing)


def _per_iteration(window: WindowEnergy) -> float:
    return sum(window.joules.values()) / window.iterations


def _is_known(values: Sequence[float], precision: float) -> bool:
    from stopwav.stats import t_interval

    if not all(value > 0 for value in values):
        return False
    mean, low, high = t_interval(values)
    return (high - low) / 2 <= precision * mean


def whole_joules(joules: Mapping[str, float], whole: Collection[str]) -> float | None:
    """The sum over the parts that make up the machine; None where one is missing."""
    if "battery" in joules:
        return joules["battery"]
    return sum(joules[part] for part in whole) if whole and all(part in joules for part in whole) else None
