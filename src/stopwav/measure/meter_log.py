"""The log of an external power meter: times and watts, integrated over windows of wall-clock time."""

from __future__ import annotations

import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from glob import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from stopwav.errors import StopwavError
from stopwav.measure.clock import Timekeeper
from stopwav.measure.log_formats import FORM, Reading, parse_log

# A meter that leaves out two readings in a row was not logging: the power in between is unknown.
GAP = 3.0
# With fewer than two readings, a window's energy would come from readings outside it.
MIN_READINGS = 2
# A log is read this often while a reading is awaited.
POLL_S = 0.5
# The wait ends when nothing new came for five of the log's usual intervals, or for 15 s: meters that log over a network
# write every second and a few seconds late.
WAIT_INTERVALS = 5.0
MIN_WAIT_S = 15.0
# It ends in any case after 5 minutes; a log that is further behind is not late, its clock is another.
MAX_WAIT_S = 300.0
# Times are rounded to a second, by some meters upwards; a reading that is further in the future has another clock.
AHEAD_S = 2.0
_SAME_CLOCK = "set the meter's clock and time zone as on this machine"


@dataclass(frozen=True)
class MeterLog:
    """A meter's readings: increasing times in seconds since 1970, and the watts at each."""

    times_s: tuple[float, ...]
    watts: tuple[float, ...]
    # What wrote it, and in which unit.
    source: str = field(default="", compare=False)

    @property
    def interval_s(self) -> float:
        """The usual time between two readings."""
        return median([after - before for before, after in pairwise(self.times_s)] or [0.0])

    def joules(self, begin_s: float, end_s: float) -> float:
        """Return the joules between two times, power being linear between readings; raise without enough of them."""
        self._check_covers(begin_s, end_s)
        first, last = bisect_right(self.times_s, begin_s), bisect_left(self.times_s, end_s)
        self._check_gaps(first - 1, last)
        count = bisect_right(self.times_s, end_s) - bisect_left(self.times_s, begin_s)
        if count < MIN_READINGS:
            raise StopwavError(
                f"the meter log has {count} readings in a window of {end_s - begin_s:.1f} s, needs {MIN_READINGS}; "
                "let the meter log more often"
            )
        return self.integral(begin_s, end_s)

    def integral(self, begin_s: float, end_s: float) -> float:
        """Return the joules between two times that the log covers, whatever its gaps."""
        first, last = bisect_right(self.times_s, begin_s), bisect_left(self.times_s, end_s)
        inside = [(self.times_s[index], self.watts[index]) for index in range(first, last)]
        points = [(begin_s, self._watts_at(begin_s)), *inside, (end_s, self._watts_at(end_s))]
        return sum((t1 - t0) * (w0 + w1) / 2 for (t0, w0), (t1, w1) in pairwise(points))

    def around(self, begin_s: float, end_s: float) -> MeterLog:
        """Return the part of the log that is needed for the time between two moments."""
        first = max(0, bisect_right(self.times_s, begin_s) - 1)
        last = bisect_left(self.times_s, end_s) + 1
        return MeterLog(self.times_s[first:last], self.watts[first:last], self.source)

    def _check_covers(self, begin_s: float, end_s: float) -> None:
        if not self.times_s or begin_s < self.times_s[0] or end_s > self.times_s[-1]:
            span = f"{_clock(self.times_s[0])} to {_clock(self.times_s[-1])}" if self.times_s else "nothing"
            raise StopwavError(
                f"the window {_clock(begin_s)} to {_clock(end_s)} is outside the meter log, which covers {span}; "
                "log from before the run to after it, by the same clock"
            )

    def _check_gaps(self, first: int, last: int) -> None:
        usual_s = self.interval_s
        for before, after in pairwise(self.times_s[first : last + 1]):
            if after - before > GAP * usual_s:
                raise StopwavError(
                    f"the meter log has a gap of {after - before:.1f} s at {_clock(before)}, where a reading every "
                    f"{usual_s:.2g} s is usual; measure again with the meter logging throughout"
                )

    def _watts_at(self, moment_s: float) -> float:
        """Return the watts at a time that the log covers, interpolated between the two nearest readings."""
        after = max(1, bisect_left(self.times_s, moment_s))
        (t0, t1), (w0, w1) = self.times_s[after - 1 : after + 1], self.watts[after - 1 : after + 1]
        return w0 + (w1 - w0) * (moment_s - t0) / (t1 - t0)


def log_files(path: Path) -> list[Path]:
    """Return the files of a log that are there: FILE, or what powertop writes for each iteration, FILE-DATE-TIME."""
    digits = "[0-9]"
    reports = path.parent.glob(f"{escape(path.stem)}-{8 * digits}-{6 * digits}{escape(path.suffix)}")
    return [path] if os.path.exists(path) else sorted(reports)


def read_meter_log(path: Path, fewest: int = MIN_READINGS) -> MeterLog:
    """Read the log of a meter, in any of the formats of `log_formats`; errors name the line, or too few readings.

    Of a log that is being written, the last line is left out until it is complete. What was rotated away as FILE.1 is
    read too.
    """
    parsed = [parse_log(file, _complete_lines(file)) for file in log_files(path) or [path]]
    readings = _in_order(path, [reading for log in parsed for reading in log.readings])
    readings = [*_rotated(path.with_name(f"{path.name}.1"), readings), *readings]
    if len(readings) < fewest:
        raise StopwavError(f"meter log {path}: readings: {len(readings)}, needs {fewest}; {FORM}")
    return MeterLog(tuple(time_s for time_s, _ in readings), tuple(watts for _, watts in readings), parsed[-1].source)


def read_growing_log(path: Path, epoch_s: Callable[[], float] = time.time, fewest: int = MIN_READINGS) -> MeterLog:
    """Read a log while it is written; one whose clock is ahead is refused, since its readings are of other work."""
    log = read_meter_log(path, fewest)
    ahead_s = log.times_s[-1] - epoch_s() if log.times_s else 0.0
    if ahead_s > AHEAD_S:
        raise StopwavError(f"meter log {path}: its newest reading is {ahead_s:.0f} s in the future; {_SAME_CLOCK}")
    return log


def _rotated(path: Path, later: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The readings of a file that a log was rotated to; none where it is not what came before."""
    try:
        earlier = _in_order(path, parse_log(path, _complete_lines(path)).readings)
    except StopwavError:
        return []
    return earlier if not later or (earlier and earlier[-1][0] < later[0][0]) else []


def _complete_lines(path: Path) -> list[str]:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may never end
        raise StopwavError(f"meter log {path}: is not a file; let the meter write to one")
    try:
        content = path.read_bytes()
        return content[: content.rfind(b"\n") + 1].decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StopwavError(f"meter log {path}: cannot be read ({reason}); {FORM}") from error


def _in_order(path: Path, readings: Sequence[Reading]) -> list[tuple[float, float]]:
    """The readings by time: lines that overtook each other are sorted, and those of one time are one, their mean.

    A time that goes back by more than the usual gap is an error: somebody set the clock.
    """
    steps_s = [abs(after.time_s - before.time_s) for before, after in pairwise(readings)]
    usual_s = median([step_s for step_s in steps_s if step_s > 0] or [0.0])
    latest_s = 0.0
    watts: dict[float, list[float]] = {}
    for reading in readings:
        if reading.time_s < latest_s - GAP * usual_s:
            raise StopwavError(
                f"meter log {path}:{reading.line}: its time is {latest_s - reading.time_s:.0f} s before that of a line "
                "above; find out what set the meter's clock back, and measure again"
            )
        latest_s = max(latest_s, reading.time_s)
        watts.setdefault(reading.time_s, []).append(reading.watts)
    return [(time_s, fmean(watts[time_s])) for time_s in sorted(watts)]


@dataclass(frozen=True)
class Awaited:
    """A log after waiting for a reading: what it holds then, how long that took, and why it is not there."""

    log: MeterLog | None
    waited_s: float
    fault: str = ""


def wait_for_reading(
    path: Path, moment_s: float, *, clock: Timekeeper = time, epoch_s: Callable[[], float] = time.time
) -> Awaited:
    """Wait until the log has a reading at or after a moment; stop where none came for long, or none can come."""
    begin_s = changed_s = clock.perf_counter()
    log, fault, known = None, "", -1.0
    while True:
        try:
            log, fault = read_growing_log(path, epoch_s), ""
        except StopwavError as error:
            log, fault = None, str(error)
        now_s = clock.perf_counter()
        newest_s = log.times_s[-1] if log else 0.0
        if newest_s > known:
            known, changed_s = newest_s, now_s
        if log and newest_s >= moment_s:
            return Awaited(log, now_s - begin_s)
        patience_s = max(MIN_WAIT_S, WAIT_INTERVALS * log.interval_s) if log else MIN_WAIT_S
        behind_s = moment_s - newest_s if log else 0.0
        if now_s - changed_s >= patience_s or now_s - begin_s >= MAX_WAIT_S or behind_s > MAX_WAIT_S:
            return Awaited(log, now_s - begin_s, fault or _late(path, moment_s, newest_s, now_s - begin_s))
        clock.sleep(POLL_S)


def _late(path: Path, moment_s: float, newest_s: float, waited_s: float) -> str:
    behind_s = moment_s - newest_s
    zone = f", {behind_s / 60:.0f} min earlier; {_SAME_CLOCK}" if behind_s > MAX_WAIT_S else ""
    return (
        f"meter log {path}: waited {waited_s:.0f} s for a reading at {_clock(moment_s)} or later; the last is of "
        f"{_clock(newest_s)}{zone}; let the meter write each line at once, and continue with --resume when it is there"
    )


def _clock(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s).astimezone().isoformat(timespec="seconds")
