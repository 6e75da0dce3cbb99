"""Cells of a table of times that are implausible beside their neighbours.

Honest times along an axis follow c + a·x + b·x² with no term below zero: a constant start, linear work, and attention.
Such a curve rises, and on the log-log scale it is convex with a slope of at most 2. So the neighbours of a cell bound
it from below and from above, without any fit; a start that makes 1 s as slow as 2 s is within the bounds. A cell beyond
them by more than steps and noise explain is implausible: something else ran meanwhile, or it did not do the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

Cell = tuple[float, float]
Point = tuple[float, float]

# A step up in honest times: one more batch of padding, a cache that overflows.
STEP = 2.0
# Noise of a cell and its neighbour together: four standard deviations of 10 % each.
NOISE = 1.75
# Noise of one time from which a slope is taken, 10 % and a little: without it, close neighbours would give any slope.
_NEIGHBOUR_NOISE = 0.12
_STEEPEST = 2.0  # the slope of c + a·x + b·x² on the log-log scale, where all of it is quadratic


def implausible_cells(times: Mapping[Cell, float]) -> list[Cell]:
    """Return the cells of a table whose times do not fit to those of the others, in the order of the table.

    A cell is a place on two axes, such as seconds of audio and batch size; cells may be missing, and an axis may have
    one place only. Where two cells contradict each other and nothing says which of them is wrong, both are returned.
    """
    if not all(time > 0 and math.isfinite(time) for time in times.values()):
        raise ValueError("implausible cells are found among positive times")
    plausible = dict(times)
    while beyond := [cell for cell in plausible if _excess(plausible, cell, STEP) > 0]:
        # The wrong cell is the one without which the others contradict each other least: one beyond its bounds, or one
        # that set them.
        suspects = [cell for cell in plausible if any(_share_a_line(cell, other) for other in beyond)]
        without = {cell: _contradiction(_others(plausible, cell)) for cell in suspects}
        clear = min(without.values()) + math.log(NOISE)
        plausible = {cell: time for cell, time in plausible.items() if without.get(cell, math.inf) > clear}
    return [cell for cell in times if cell not in plausible]


def _others(times: Mapping[Cell, float], cell: Cell) -> dict[Cell, float]:
    return {other: time for other, time in times.items() if other != cell}


def _share_a_line(cell: Cell, other: Cell) -> bool:
    return cell[0] == other[0] or cell[1] == other[1]


def _contradiction(times: Mapping[Cell, float]) -> float:
    """How far all cells together are beyond their bounds by more than noise."""
    return math.fsum(_excess(times, cell, step=1.0) for cell in times)


def _excess(times: Mapping[Cell, float], cell: Cell, step: float) -> float:
    """How far a cell is beyond the bounds of its row and its column and noise, on the log scale; 0 inside."""
    log_time = math.log(times[cell])
    beyond = 0.0
    for axis in (0, 1):
        line = [(other[axis], time) for other, time in times.items() if other[1 - axis] == cell[1 - axis]]
        below = sorted(point for point in line if point[0] < cell[axis])
        above = sorted(point for point in line if point[0] > cell[axis])
        lowest = max(_lower_bounds(cell[axis], below, above, math.log(step)), default=-math.inf)
        highest = min(_upper_bounds(cell[axis], below, above, math.log(step)), default=math.inf)
        beyond = max(beyond, lowest - log_time, log_time - highest)
    return max(0.0, beyond - math.log(NOISE))


def _lower_bounds(x: float, below: Sequence[Point], above: Sequence[Point], step: float) -> Iterator[float]:
    """Logarithms of times that the time at x is not below: it rises, and on the log-log scale ever more steeply.

    Between any two places there may be a step up, by the logarithm `step`.
    """
    if below:
        nearest, time = below[-1]
        slope = _slope(below[-2], below[-1], -step - 2 * _NEIGHBOUR_NOISE) if len(below) > 1 else 0.0
        yield math.log(time) + slope * math.log(x / nearest)
    if above:
        nearest, time = above[0]
        slope = _slope(above[0], above[1], 2 * _NEIGHBOUR_NOISE) if len(above) > 1 else _STEEPEST
        yield math.log(time) - slope * math.log(nearest / x) - step


def _upper_bounds(x: float, below: Sequence[Point], above: Sequence[Point], step: float) -> Iterator[float]:
    """Logarithms of times that the time at x is not above, with a step up as for the lower bounds."""
    if above:
        yield math.log(above[0][1])  # times rise
    if below:
        nearest, time = below[-1]
        yield math.log(time) + _STEEPEST * math.log(x / nearest) + step
    if below and above:
        # Convex on the log-log scale: not above the line between its neighbours.
        (left, left_time), (right, right_time) = below[-1], above[0]
        share = math.log(x / left) / math.log(right / left)
        yield math.log(left_time) + share * math.log(right_time / left_time) + step
    for before, before_time in below[:-1]:
        # Of all such curves through two points, the one without a linear term rises most behind them.
        nearest, time = below[-1]
        rise = max(0.0, time * (1 + _NEIGHBOUR_NOISE) - before_time * (1 - _NEIGHBOUR_NOISE))
        yield math.log(time + rise * (x**2 - nearest**2) / (nearest**2 - before**2)) + step


def _slope(left: Point, right: Point, allowance: float) -> float:
    """The slope between two points on the log-log scale, if the rise is larger by `allowance`, as far as one can be."""
    rise = math.log(right[1] / left[1]) + allowance
    return min(_STEEPEST, max(0.0, rise / math.log(right[0] / left[0])))
