"""When sessions begin: fixed before a level starts, so that a server that falls behind is offered no less.

A level has three parts. In the ramp its streams begin one after the other; sessions that begin in the steady part
count; those of the tail keep the load up until the last that counts is over, and are then cut.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Arrivals = Literal["streams", "constant", "poisson"]
Part = Literal["ramp", "steady", "tail"]

# The ramp lasts as long as a mean session, so that streams are spread over all places of an utterance. Sessions that
# arrive at a rate are as many as there will be only after the longest one.
SHORTEST_RAMP_S = 2.0
# A caller hangs up and the next one begins; less than a chunk would put all streams of a server in step.
LONGEST_GAP_S = 0.25


@dataclass(frozen=True)
class ScheduledSession:
    """One session: which utterance is spoken, and from when, in seconds since the level began."""

    utterance: int
    begin_s: float
    part: Part


@dataclass(frozen=True)
class LevelSchedule:
    """The sessions of a level in the order in which they begin, and its parts."""

    sessions: tuple[ScheduledSession, ...]
    ramp_s: float
    steady_s: float

    @property
    def steady_end_s(self) -> float:
        """When the steady part is over."""
        return self.ramp_s + self.steady_s


def schedule_level(
    streams: int, lengths_s: Sequence[float], steady_s: float, patience_s: float, arrivals: Arrivals, seed: int
) -> LevelSchedule:
    """Return the sessions of a level of so many streams; `lengths_s` are those of the utterances.

    The tail lasts until the longest session that counts has ended and its text was waited for.
    """
    generator = random.Random(seed)
    ramp_s = ramp_length_s(lengths_s, arrivals)
    end_s = ramp_s + steady_s + max(lengths_s) + patience_s
    begins = _slots if arrivals == "streams" else _arrivals
    pairs = begins(streams, lengths_s, ramp_s, end_s, arrivals, generator)
    sessions = sorted(
        (ScheduledSession(utterance, begin_s, _part(begin_s, ramp_s, steady_s)) for utterance, begin_s in pairs),
        key=lambda session: session.begin_s,
    )
    return LevelSchedule(tuple(sessions), ramp_s, steady_s)


def ramp_length_s(lengths_s: Sequence[float], arrivals: Arrivals) -> float:
    """Return how long it takes until as many streams are open as a level has."""
    settled_s = sum(lengths_s) / len(lengths_s) if arrivals == "streams" else max(lengths_s)
    return max(SHORTEST_RAMP_S, settled_s)


def _part(begin_s: float, ramp_s: float, steady_s: float) -> Part:
    return "ramp" if begin_s < ramp_s else "steady" if begin_s < ramp_s + steady_s else "tail"


def _slots(
    streams: int,
    lengths_s: Sequence[float],
    ramp_s: float,
    end_s: float,
    arrivals: Arrivals,
    generator: random.Random,
) -> Iterator[tuple[int, float]]:
    """So many streams at any time: in each of them one utterance follows the other, after a short pause."""
    drawn = _utterances(len(lengths_s), generator)
    for slot in range(streams):
        begin_s = ramp_s * (slot + generator.random()) / streams
        while begin_s < end_s:
            utterance = next(drawn)
            yield utterance, begin_s
            begin_s += lengths_s[utterance] + generator.uniform(0.0, LONGEST_GAP_S)


def _arrivals(
    streams: int,
    lengths_s: Sequence[float],
    ramp_s: float,
    end_s: float,
    arrivals: Arrivals,
    generator: random.Random,
) -> Iterator[tuple[int, float]]:
    """Sessions begin at a rate at which, by Little's law, so many streams are open on average."""
    drawn = _utterances(len(lengths_s), generator)
    gap_s = sum(lengths_s) / len(lengths_s) / streams
    # Where a gap is some whole chunks, all streams would be in step: each session begins a little later than its turn.
    jitter_s = min(gap_s, LONGEST_GAP_S) if arrivals == "constant" else 0.0
    turn_s = gap_s * generator.random()
    while turn_s + jitter_s < end_s:
        yield next(drawn), turn_s + jitter_s * generator.random()
        turn_s += gap_s if arrivals == "constant" else generator.expovariate(1 / gap_s)


def _utterances(count: int, generator: random.Random) -> Iterator[int]:
    """The utterances in an order drawn again and again, so that each comes as often as any other."""
    while True:
        order = list(range(count))
        generator.shuffle(order)
        yield from order
