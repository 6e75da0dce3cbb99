"""The Pareto set: what nothing else is shown to beat, with no winner inside overlapping intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stopwav.stats.estimate import Estimate

Point = Sequence[Estimate]


def pareto_set(points: Mapping[str, Point]) -> list[str]:
    """The names of the points that no other is shown to beat, in the order given; less is better on every axis.

    All of them need a value on every axis.
    """
    return [name for name, point in points.items() if not any(dominates(other, point) for other in points.values())]


def dominates(a: Point, b: Point) -> bool:
    """Whether a is shown to be less than b on some axis, and no more than b on any other.

    Shown is what whole intervals say: where they overlap, b may be the better one, and is not beaten. A count is
    certain and has its value for both ends; a measured value without an interval shows nothing.
    """
    pairs = list(zip(a, b, strict=True))
    return all(_no_more(one, other) for one, other in pairs) and any(one.high != other.low for one, other in pairs)


def _no_more(a: Estimate, b: Estimate) -> bool:
    return a.high is not None and b.low is not None and a.high <= b.low
