"""Which level to measure next: doubling, then bisection, then fresh rounds where it ends and at the level above.

A pure function of what is known of each level. So a run that was killed and resumed goes on where it was, and the
search can be simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# From here on a level is one of some hundreds that nobody tells apart: levels are at least 3 % away from each other.
FINEST_STEP = 0.03
# A level that is not decided after so many rounds is at the limit itself; the levels around it are looked at instead.
MOST_ROUNDS = 4
# Rounds of all levels together after which a search ends: each takes a quarter of a minute or more.
MOST_MEASURED = 40
# The most streams that are tried without --streams; a server that carries more needs several client machines.
MOST_STREAMS = 4096


@dataclass(frozen=True)
class LevelState:
    """What is known of a level: whether the objective holds there, whether that is sure, and after how many rounds.

    `shown_failing` is whether its sessions show that it does not hold, though only a fresh round makes that sure.
    """

    holds: bool
    sure: bool
    rounds: int = 1
    shown_failing: bool = False

    @property
    def settled(self) -> bool:
        """Whether more rounds are not worth their time."""
        return self.sure or self.rounds >= MOST_ROUNDS


@dataclass(frozen=True)
class Bounds:
    """The capacity as far as it is known.

    `holds` is the most streams at which the objective holds; `surely` the most at which it surely does, 0 for none;
    `surely_not` the fewest at which it surely does not, None where no such level is known.
    """

    holds: int
    surely: int
    surely_not: int | None


def bounds(levels: Mapping[int, LevelState]) -> Bounds:
    """Return the capacity and its interval from the levels that are known."""
    surely, holding, _ = _edges(levels)
    return Bounds(holding, surely, min(surely_failing(levels), default=None))


def next_level(levels: Mapping[int, LevelState], most: int = MOST_STREAMS, first: int = 1) -> int | None:
    """Return the number of streams to measure next; None once nothing is left to find out."""
    if not levels:
        return min(first, most)
    if sum(state.rounds for state in levels.values()) >= MOST_MEASURED:
        return None
    _, holding, failing = _edges(levels)
    if failing is None:
        if holding < most:
            return min(2 * holding, most)
        return None if levels[holding].settled else holding
    if failing - holding > step_above(holding):
        return (holding + failing) // 2
    clear = min((streams for streams, state in levels.items() if state.shown_failing), default=None)
    if clear is not None and not any(surely_failing(levels)) and not levels[clear].settled:
        # A short round more, and the capacity has an upper end.
        return clear
    edge = [streams for streams in (holding, failing) if streams and not levels[streams].settled]
    if edge:
        return min(edge, key=lambda streams: (levels[streams].rounds, streams == failing))
    return _widened(levels, holding, failing, most)


def step_above(streams: int) -> int:
    """Return how far the next level above is away."""
    return max(1, math.floor(FINEST_STEP * streams))


def surely_holding(levels: Mapping[int, LevelState]) -> Iterable[int]:
    """Return the levels at which the objective surely holds."""
    return (streams for streams, state in levels.items() if state.holds and state.sure)


def surely_failing(levels: Mapping[int, LevelState]) -> Iterable[int]:
    """Return the levels at which the objective surely does not hold."""
    return (streams for streams, state in levels.items() if not state.holds and state.sure)


def _below(streams: int, limit: int | None) -> bool:
    return limit is None or streams < limit


def _edges(levels: Mapping[int, LevelState]) -> tuple[int, int, int | None]:
    """The most streams that surely hold, the most that hold below the first that fail, and these, where any do.

    A failure below a level that surely holds was chance: more streams do not make a server quicker. Where what surely
    holds is above what surely does not, one of them was chance as well, and the lower one counts.
    """
    surely_not = min(surely_failing(levels), default=None)
    sure = max((streams for streams in surely_holding(levels) if _below(streams, surely_not)), default=0)
    failures = [streams for streams, state in levels.items() if not state.holds and (state.sure or streams > sure)]
    failing = min(failures, default=None)
    holding = max((s for s, state in levels.items() if state.holds and _below(s, failing)), default=0)
    return sure, holding, failing


def _widened(levels: Mapping[int, LevelState], holding: int, failing: int, most: int) -> int | None:
    """The next level away from the edge, on a side where nothing is sure yet; None where both sides are sure.

    Levels at the limit itself stay undecided however often they are measured; the interval ends beside them.
    """
    above = _first_unsettled(levels, failing, most, holds=False)
    below = _first_unsettled(levels, holding, most, holds=True)
    known = [streams for streams in (above, below) if streams is not None]
    # The nearer side first, so that neither is left open when the time ends.
    return min(known, key=lambda streams: min(abs(streams - holding), abs(streams - failing)), default=None)


def _first_unsettled(levels: Mapping[int, LevelState], edge: int, most: int, *, holds: bool) -> int | None:
    """The level nearest to an edge that is worth a round, in steps that double; None where one before it is sure."""
    streams, step = edge, step_above(edge)
    while 0 < streams <= most:
        state = levels.get(streams)
        if state is None or not state.settled:
            return streams
        if state.sure and state.holds == holds:
            return None
        streams += -step if holds else step
        step *= 2
    return None
