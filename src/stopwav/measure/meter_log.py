"""The log of an external power meter: (timestamp, watts) lines, integrated over windows of wall-clock time."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from stopwav.errors import StopwavError

# A meter that leaves out two readings in a row was not logging: the power in between is unknown.
GAP = 3.0
# With fewer than two readings, a window's energy would come from readings outside it.
MIN_READINGS = 2
# Seconds since 1970 have ten digits until the year 2286, and milliseconds thirteen.
_LATEST_S = 1e10

_TIMES = ("time", "timestamp", "date", "datetime", "epoch", "unix", "unixtime")
_WATTS = re.compile(r"(?:power)?[ _]*[\[(]?(?:w|watt|watts)[\])]?", re.IGNORECASE)
_FORM = "write a header `timestamp,watts`, then seconds since 1970 (or ISO 8601 with its zone) and watts in each line"


@dataclass(frozen=True)
class MeterLog:
    """A meter's readings: increasing times in seconds since 1970, and the watts at each."""

    times_s: tuple[float, ...]
    watts: tuple[float, ...]

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
        return MeterLog(self.times_s[first:last], self.watts[first:last])

    def _check_covers(self, begin_s: float, end_s: float) -> None:
        if not self.times_s or begin_s < self.times_s[0] or end_s > self.times_s[-1]:
            span = f"{_clock(self.times_s[0])} to {_clock(self.times_s[-1])}" if self.times_s else "nothing"
            raise StopwavError(
                f"the window {_clock(begin_s)} to {_clock(end_s)} is outside the meter log, which covers {span}; "
                "log from before the run to after it, by the same clock"
            )

    def _check_gaps(self, first: int, last: int) -> None:
        usual_s = median(after - before for before, after in pairwise(self.times_s))
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


def read_meter_log(path: Path) -> MeterLog:
    """Read a CSV file of timestamps and watts, with or without a header; errors name the line."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StopwavError(f"meter log {path}: cannot be read ({reason}); {_FORM}") from error
    columns = (0, 1)
    if rows and not _is_reading(rows[0][1]):
        columns = _columns(path, rows[0][1])
        rows = rows[1:]
    readings = list(_readings(path, rows, columns))
    if len(readings) < MIN_READINGS:
        raise StopwavError(f"meter log {path}: readings: {len(readings)}, needs {MIN_READINGS}; {_FORM}")
    return MeterLog(tuple(time_s for time_s, _ in readings), tuple(watts for _, watts in readings))


def _columns(path: Path, header: Sequence[str]) -> tuple[int, int]:
    """Return which columns hold the time and the watts, by the header."""
    names = [name.strip() for name in header]
    times = [index for index, name in enumerate(names) if name.lower() in _TIMES]
    watts = [index for index, name in enumerate(names) if _WATTS.fullmatch(name)]
    if not watts:
        raise StopwavError(
            f"meter log {path}: no column in watts in the header {', '.join(names)!r}; convert other units and name "
            "the column watts"
        )
    if not times:
        raise StopwavError(f"meter log {path}: no column of times in the header {', '.join(names)!r}; {_FORM}")
    return times[0], watts[0]


def _readings(
    path: Path, rows: Sequence[tuple[int, Sequence[str]]], columns: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    latest_s = None
    for number, row in rows:
        try:
            time_s, watts = _time_s(row[columns[0]].strip()), _watts(row[columns[1]])
        except (IndexError, ValueError) as error:
            shown = ",".join(row)[:60]
            raise StopwavError(f"meter log {path}:{number}: {shown!r} is not a reading ({error}); {_FORM}") from None
        if latest_s is not None and time_s <= latest_s:
            raise StopwavError(
                f"meter log {path}:{number}: its time {row[columns[0]].strip()} is not after that of the line before; "
                "find out what set the meter's clock back, and measure again"
            )
        latest_s = time_s
        yield time_s, watts


def _is_reading(row: Sequence[str]) -> bool:
    try:
        _time_s(row[0].strip())
    except ValueError:
        return False
    return True


def _time_s(text: str) -> float:
    """Parse a timestamp into seconds since 1970."""
    try:
        seconds = _number(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("a time without its zone") from None
        return moment.timestamp()
    if not 0 < seconds < _LATEST_S:
        raise ValueError("not in seconds since 1970; milliseconds?")
    return seconds


def _number(text: str) -> float:
    number = float(text)
    if number != number or abs(number) == float("inf"):
        raise ValueError("not finite")
    return number


def _watts(text: str) -> float:
    watts = _number(text)
    if watts < 0:
        raise ValueError("below zero")
    return watts


def _clock(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s).astimezone().isoformat(timespec="seconds")
