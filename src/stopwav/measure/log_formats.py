"""The formats of meter logs: what each kind of meter and tool writes, told by content; times and watts come out.

A unit that is not named, or that a known format does not define, is refused: a number in milliwatts looks like watts.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError

# Seconds since 1970 have ten digits until the year 2286, and milliseconds thirteen.
_LATEST_S = 1e10
# In front of a message, a smaller number than that of 2001 is part of a topic.
_EARLIEST_S = 1e9
# Shelly's energy meters store a line a minute.
_SHELLY_PERIOD_S = 60.0
# A gigawatt is a power station.
_MOST_W = 1e9
# Times of day that go back by more than this have passed midnight; by less, they are out of order.
_HALF_A_DAY = timedelta(hours=12)

_TIMES = ("time", "timestamp", "date", "datetime", "epoch", "unix", "unixtime", "ts", "timestamp_unix", "timestamp_iso")
_WATTS = re.compile(r"(?:power)?[ _]*[\[(]?(?:w|watt|watts)[\])]?", re.IGNORECASE)
# Columns whose unit their maker defines as watts: Shelly's active power, and Tasmota's power.
_DEFINED_WATTS = re.compile(r"apower|(?:.*[._\- ])?energy[._\- ]power", re.IGNORECASE)
_ACT_ENERGY = re.compile(r"(?:[abc]_)?total_act_energy")
_POWERSTAT = re.compile(r"\s*Time\s+User\s+Nice\s.*\bWatts\b")
_POWERTOP_RATE = re.compile(r"discharge rate of:?[\s,;]*([\d.]+) *([um]?)W")
_POWERTOP_ENERGY = re.compile(r"energy consumed was ?:?[\s,;]*([\d.]+) *([umk]?)J")
_POWERTOP_STAMP = re.compile(r"-(\d{8}-\d{6})$")
_PREFIXES = {"u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
FORM = "write a header `timestamp,watts`, then seconds since 1970 (or ISO 8601 with its zone) and watts in each line"


@dataclass(frozen=True)
class Reading:
    """One reading, and the line of the file that has it."""

    line: int
    time_s: float
    watts: float


@dataclass(frozen=True)
class ParsedLog:
    """The readings of a log in the order of its lines, and what it was taken for, with its unit."""

    readings: Sequence[Reading]
    source: str


def parse_log(path: Path, lines: Sequence[str]) -> ParsedLog:
    """Return the readings of a log, whatever wrote it; errors name the line."""
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    first = numbered[0][1] if numbered else ""
    if first.startswith("PowerTOP"):
        return ParsedLog(list(_powertop(path, lines)), "powertop, discharge rate in W")
    if any(_POWERSTAT.match(line) for line in lines):
        return ParsedLog(list(_powerstat(path, numbered)), "powerstat, column Watts in W, times of this machine's zone")
    if "{" in first:
        return _json_lines(path, numbered)
    return _csv(path, numbered)


def _csv(path: Path, numbered: Sequence[tuple[int, str]]) -> ParsedLog:
    """A table of times and watts, with or without a header; or Shelly's table of watt-hours in each minute."""
    delimiter = ";" if numbered and ";" in numbered[0][1] else ","
    try:
        rows = [(number, next(csv.reader([line], delimiter=delimiter))) for number, line in numbered]
    except csv.Error as error:
        raise StopwavError(f"meter log {path}: cannot be read ({error}); {FORM}") from error
    if not rows or _is_reading(rows[0][1]):
        return ParsedLog(list(_table(path, rows, 0, 1)), "CSV, second column taken as W")
    names = [name.strip() for name in rows[0][1]]
    # A logger that was restarted writes its header again.
    rows = [(number, row) for number, row in rows if [name.strip() for name in row] != names]
    energies = [index for index, name in enumerate(names) if _ACT_ENERGY.fullmatch(name)]
    column = -1 if energies else _watts_column(path, names)
    time = _time_column(path, names)
    if energies:
        source = f"Shelly EM data, {' + '.join(names[index] for index in energies)} in Wh of the minute from each time"
        return ParsedLog(list(_shelly_minutes(path, rows, time, energies)), source)
    return ParsedLog(list(_table(path, rows, time, column)), f"CSV, column {names[column]} in W")


def _time_column(path: Path, names: Sequence[str]) -> int:
    times = [index for index, name in enumerate(names) if name.lower() in _TIMES]
    if not times:
        raise StopwavError(f"meter log {path}: no column of times in the header {', '.join(names)!r}; {FORM}")
    return times[0]


def _watts_column(path: Path, names: Sequence[str]) -> int:
    for pattern in (_WATTS, _DEFINED_WATTS):
        if watts := [index for index, name in enumerate(names) if pattern.fullmatch(name)]:
            return watts[0]
    raise StopwavError(
        f"meter log {path}: no column in watts in the header {', '.join(names)!r}; convert other units and name "
        "the column watts"
    )


def _table(path: Path, rows: Sequence[tuple[int, Sequence[str]]], time: int, watts: int) -> Iterator[Reading]:
    for number, row in rows:
        try:
            yield Reading(number, time_s(row[time].strip()), _power(row[watts]))
        except (IndexError, ValueError) as error:
            raise _not_a_reading(path, number, ",".join(row), error) from None


def _shelly_minutes(
    path: Path, rows: Sequence[tuple[int, Sequence[str]]], time: int, energies: Sequence[int]
) -> Iterator[Reading]:
    """The mean power of each minute, at its middle: a line holds the energy of the minute that begins at its time."""
    for number, row in rows:
        try:
            joules = 3600 * sum(_power(row[index]) for index in energies)
            yield Reading(number, time_s(row[time].strip()) + _SHELLY_PERIOD_S / 2, joules / _SHELLY_PERIOD_S)
        except (IndexError, ValueError) as error:
            raise _not_a_reading(path, number, ",".join(row), error) from None


def _json_lines(path: Path, numbered: Sequence[tuple[int, str]]) -> ParsedLog:
    """Messages of a Tasmota or Shelly plug, one in a line, perhaps after a time or a topic; others are passed over."""
    readings, makers = [], dict[str, None]()
    for number, line in numbered:
        prefix, _, rest = line.partition("{")
        try:
            message = json.loads("{" + rest)
            maker, power, own_time = _message(message)
            if power is None:
                continue
            # A time in front was written by whoever logged the message, by this machine's clock.
            stamps_s = [time_s(word) for word in prefix.split() if _is_time(word) and time_s(word) > _EARLIEST_S]
            if own_time is None and not stamps_s:
                raise ValueError("it has no time; write one in front of it")
            moment_s = stamps_s[0] if stamps_s else time_s(str(own_time), local=True)
            readings.append(Reading(number, moment_s, _power(power)))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise _not_a_reading(path, number, line, error) from None
        makers[maker] = None
    return ParsedLog(readings, " and ".join(makers) or "JSON lines without a power")


def _message(message: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return the maker and unit, the power, and the time of a message; None for power where it has none."""
    message = message.get("StatusSNS", message)  # as Tasmota answers `Status 10`
    if "ENERGY" in message:
        return "Tasmota, ENERGY.Power in W", message["ENERGY"].get("Power"), message.get("Time")
    inner = message.get("params", message)
    powers = [part["apower"] for part in (inner, *inner.values()) if isinstance(part, dict) and "apower" in part]
    if len(powers) > 1:
        raise ValueError(f"it has the power of {len(powers)} outputs; log the one that feeds this machine")
    return "Shelly, apower in W", powers[0] if powers else None, inner.get("ts")


def _powerstat(path: Path, numbered: Sequence[tuple[int, str]]) -> Iterator[Reading]:
    """The lines of powerstat have a time of day: the last one is of the day on which the file was written."""
    column, lines = 0, []
    for number, line in numbered:
        if _POWERSTAT.match(line):
            column = line.split().index("Watts")
        elif re.match(r"\d\d:\d\d:\d\d\s", line):
            lines.append((number, line.split()))
    later = datetime.fromtimestamp(path.stat().st_mtime)
    readings = []
    for number, words in reversed(lines):
        try:
            moment = datetime.combine(later.date(), datetime.strptime(words[0], "%H:%M:%S").time())
            if moment - later > _HALF_A_DAY:  # before midnight
                moment -= timedelta(days=1)
            later = moment
            # powerstat marks what it estimated itself with an E; that is not a reading.
            if not words[column].endswith("E"):
                readings.append(Reading(number, moment.timestamp(), _power(words[column])))
        except (IndexError, ValueError) as error:
            raise _not_a_reading(path, number, " ".join(words), error) from None
    yield from reversed(readings)


def _powertop(path: Path, lines: Sequence[str]) -> Iterator[Reading]:
    """The one reading of a report of powertop: the mean power from the time in its file's name, at the middle."""
    text = "\n".join(lines)
    rate, energy, stamp = _POWERTOP_RATE.search(text), _POWERTOP_ENERGY.search(text), _POWERTOP_STAMP.search(path.stem)
    if rate is None:
        raise StopwavError(f"meter log {path}: powertop reports no discharge rate; it needs a battery that discharges")
    if stamp is None:
        raise StopwavError(
            f"meter log {path}: a single report of powertop; with --iteration it writes one after the other, each with "
            "its time: name the file that you name there"
        )
    watts = float(rate[1]) * _PREFIXES[rate[2]]
    seconds = float(energy[1]) * _PREFIXES[energy[2]] / watts if energy and watts > 0 else 0.0
    start_s = datetime.strptime(stamp[1], "%Y%m%d-%H%M%S").timestamp()
    yield Reading(1, start_s + seconds / 2, watts)


def _not_a_reading(path: Path, number: int, line: str, error: Exception) -> StopwavError:
    return StopwavError(f"meter log {path}:{number}: {line[:60]!r} is not a reading ({error}); {FORM}")


def _is_reading(row: Sequence[str]) -> bool:
    return bool(row) and _is_time(row[0].strip())


def _is_time(text: str) -> bool:
    try:
        time_s(text)
    except ValueError:
        return False
    return True


def time_s(text: str, *, local: bool = False) -> float:
    """Return a timestamp in seconds since 1970; one without a zone is refused, or taken as `local`."""
    try:
        seconds = _number(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and not local:
            raise ValueError("a time without its zone") from None
        try:
            return moment.timestamp()
        except OverflowError:
            raise ValueError("not a time of this era") from None
    if not 0 < seconds < _LATEST_S:
        raise ValueError("not in seconds since 1970; milliseconds?")
    return seconds


def _number(text: str | float) -> float:
    try:
        number = float(text)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _power(text: str | float) -> float:
    number = _number(text)
    if not 0 <= number <= _MOST_W:
        raise ValueError("below zero" if number < 0 else "more than a power station")
    return number
