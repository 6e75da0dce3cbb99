"""The change points of a history: between which two runs the level of a metric shifted, and from what to what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from stopwav.report.history import PastRun, Point, machine_letters, metrics_of, points_of
from stopwav.report.text import format_bytes, format_digits
from stopwav.stats.change_points import FEWEST_VALUES, LEVEL, change_points

# Of a longer line the newest runs are searched: the time that takes grows with the square of their number.
MOST_RUNS = 150


@dataclass(frozen=True)
class Level:
    """The level of a metric on one side of a shift: the median of its runs, and the run next to the shift."""

    run: Path
    started: str
    time_s: float
    value: float
    runs: int

    def to_json(self) -> dict[str, Any]:
        """Return the level as `--json` prints it."""
        return {"run": str(self.run), "started": self.started, "value": self.value, "runs": self.runs}


@dataclass(frozen=True)
class LevelShift:
    """A change point: the metric, the line of the history, and the levels before and after."""

    metric: str
    name: str
    # Its letter, and its fingerprint.
    machine: str
    fingerprint: str
    setting: str
    before: Level
    after: Level
    p_value: float

    @property
    def line(self) -> tuple[str, str, str]:
        """The line that it is on, as points have it."""
        return self.name, self.machine, self.setting

    @property
    def change(self) -> float | None:
        """The relative change; None where a level is not above zero, so that there is no ratio."""
        ends = self.before.value, self.after.value
        return ends[1] / ends[0] - 1 if min(ends) > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the shift as `--json` prints it."""
        return {
            "metric": self.metric,
            "name": self.name,
            "machine": self.fingerprint,
            "setting": self.setting,
            "change": self.change,
            "p": self.p_value,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


@dataclass(frozen=True)
class LevelShifts:
    """All change points of a history, and how many series were long enough to have one."""

    shifts: tuple[LevelShift, ...] = ()
    series: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the change points as `--json` prints them."""
        return {"level": LEVEL, "series": self.series, "shifts": [shift.to_json() for shift in self.shifts]}

    def of(self, metric: str) -> list[LevelShift]:
        """Return those of a metric."""
        return [shift for shift in self.shifts if shift.metric == metric]


def level_shifts(runs: Sequence[PastRun]) -> LevelShifts:
    """Return the change points of every metric on every line of a history."""
    fingerprints = {letter: machine for machine, letter in machine_letters(runs).items()}
    shifts: list[LevelShift] = []
    series = 0
    for metric in metrics_of(runs):
        lines: dict[tuple[str, str, str], list[Point]] = {}
        for point in points_of(metric, runs, 1.0, ""):
            lines.setdefault(point.line, []).append(point)
        for points in lines.values():
            series += len(points) >= 2 * FEWEST_VALUES
            shifts += _shifts_of(metric, points[-MOST_RUNS:], fingerprints[points[0].machine])
    return LevelShifts(tuple(shifts), series)


def _shifts_of(metric: str, points: Sequence[Point], fingerprint: str) -> list[LevelShift]:
    """The change points of one line."""
    name, machine, setting = points[0].line
    found = change_points([point.value for point in points])
    bounds = [0, *(point.position for point in found), len(points)]
    shifts = []
    for index, point in enumerate(found):
        before, after = points[bounds[index] : point.position], points[point.position : bounds[index + 2]]
        levels = _level(before, before[-1]), _level(after, after[0])
        shifts.append(LevelShift(metric, name, machine, fingerprint, setting, *levels, point.p_value))
    return shifts


def _level(points: Sequence[Point], nearest: Point) -> Level:
    value = median(point.value for point in points)
    return Level(nearest.run, nearest.started, nearest.time_s, value, len(points))


def level_text(value: float, scale: float, unit: str) -> str:
    """Return a level in the unit in which its metric is shown."""
    if unit == "MB":
        return format_bytes(value)
    suffix = {"ratio": "", "count": "", "percent": " %"}.get(unit, f" {unit}")
    return format_digits(value * scale) + suffix


def change_text(shift: LevelShift) -> str:
    """Return the relative change in percent; "" where there is none."""
    return "" if shift.change is None else f"{100 * shift.change:+.1f} %"
