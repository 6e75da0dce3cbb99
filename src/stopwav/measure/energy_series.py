"""Energy of repeated work, window by window, each with its wall-clock time so that an external log can be matched."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stopwav.measure.clock import Timekeeper
from stopwav.measure.energy import IDLE_NAP_S, IDLE_S, MIN_WINDOW_S, Window, measure_window
from stopwav.measure.meter import Meter, NoMeter

# Most meters that log to a file do so once a second: ten readings per window.
EXTERNAL_WINDOW_S = 10.0
# The fewest windows that show a spread worth the name.
MIN_WINDOWS = 3
# Half-width of the 95 % interval of the mean over windows at which they end, as a share of the mean.
PRECISION = 0.05
# A window of three intervals between a log's readings holds two of them at least, wherever it begins.
LOG_INTERVALS = 3.0

NO_COUNTER = "no cross-check: its joules are sampled power, there is no counter"


@dataclass(frozen=True)
class WindowEnergy:
    """One window: its start in seconds since 1970, its length, and the joules of each part or why they are missing.

    `sampled_joules` cross-checks the counters: the integral of sampled power, or the reason in `unsampled`. Where power
    was sampled, `samples` says how often, and `longest_gap_s` how long it was not.
    """

    begin_s: float
    seconds: float
    iterations: int
    joules: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    sampled_joules: Mapping[str, float] = field(default_factory=dict)
    unsampled: Mapping[str, str] = field(default_factory=dict)
    samples: int = 0
    longest_gap_s: float | None = None

    @property
    def end_s(self) -> float:
        """The end of the window, in seconds since 1970."""
        return self.begin_s + self.seconds


def external_window_s(interval_s: float) -> float:
    """Return the shortest window for an external meter that has a reading every so many seconds (0 if unknown)."""
    return max(EXTERNAL_WINDOW_S, LOG_INTERVALS * interval_s)


def with_external(meter: Meter | NoMeter, interval_s: float = 0.0) -> Meter:
    """Return the meter with windows long enough for an external one too; without a meter, one without counters."""
    window_s = external_window_s(interval_s)
    if isinstance(meter, NoMeter):
        return Meter("external meter", (), tick_s=0.0, min_window_s=window_s)
    return replace(meter, min_window_s=max(meter.min_window_s, window_s))


def idle_window(meter: Meter, *, clock: Timekeeper = time, epoch_s: Callable[[], float] = time.time) -> WindowEnergy:
    """Measure a window in which the machine is idle."""
    window = measure_window(lambda: clock.sleep(IDLE_NAP_S), meter, max(IDLE_S, meter.min_window_s), clock)
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
    """Measure windows of a repeated call, for `time_s` seconds or until their mean has the precision.

    There are at least three, each at least as long as the meter needs. Without counters the precision is unknown, so
    the whole time is used.
    """
    windows: list[WindowEnergy] = []
    while len(windows) < MIN_WINDOWS or not (
        sum(window.seconds for window in windows) >= time_s or _is_precise(windows, precision)
    ):
        counted = measure_window(call, meter, max(MIN_WINDOW_S, meter.min_window_s), clock)
        windows.append(_energy(counted, clock, epoch_s))
    return windows


def _energy(window: Window, clock: Timekeeper, epoch_s: Callable[[], float]) -> WindowEnergy:
    # The offset between the two clocks is read again for each window: wall-clock time may be corrected meanwhile.
    begin_s = window.opened_s + (epoch_s() - clock.perf_counter())
    joules, missing = _by_part(window.meter, window.joules)
    sampled, unsampled = _by_part(window.meter, lambda part: _cross_check(window, part))
    end_s = window.opened_s + window.seconds
    return WindowEnergy(
        begin_s,
        window.seconds,
        window.iterations,
        joules,
        missing,
        sampled,
        unsampled,
        samples=window.power.sample_count(window.opened_s, end_s),
        longest_gap_s=window.power.longest_gap_s(window.opened_s, end_s) if window.power.times_s else None,
    )


def _cross_check(window: Window, part: str) -> tuple[float | None, str]:
    return (None, NO_COUNTER) if window.meter.has_only_power(part) else window.sampled_joules(part)


def _by_part(
    meter: Meter, read_joules: Callable[[str], tuple[float | None, str]]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the joules of each part that has a number, and the reason for each that has none."""
    joules, missing = {}, {}
    for part in meter.parts:
        part_j, reason = read_joules(part)
        if part_j is None:
            missing[part] = reason
        else:
            joules[part] = part_j
    return joules, missing


def _is_precise(windows: Sequence[WindowEnergy], precision: float) -> bool:
    from stopwav.stats import t_interval

    values = [sum(window.joules.values()) / window.iterations for window in windows]
    if not all(value > 0 for value in values):
        return False
    mean, low, high = t_interval(values)
    return (high - low) / 2 <= precision * mean


def whole_joules(joules: Mapping[str, float], whole: Collection[str]) -> float | None:
    """Return the sum over the parts that make up the machine; None where one is missing."""
    if "battery" in joules:
        return joules["battery"]
    return sum(joules[part] for part in whole) if whole and all(part in joules for part in whole) else None
