"""Calls that are due at given times, made in virtual time or paced by the wall clock.

In virtual time each call is made as soon as the last one returned, and the schedule is reconstructed:
`start = max(due, done of the call before)`. The work is the same as in real time, without the waiting.

Real pace waits with the core awake. Idle pace lets it sleep between calls, as a deployed recogniser does on a quiet
machine: the core wakes to a lower frequency and colder caches, and the same work takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.measure.clock import Clock
from stopwav.measure.stages import Span

Pace = Literal["virtual", "real", "idle"]


@dataclass(frozen=True)
class PacedCall:
    """One call: when it was due, started and done, in seconds of the stream, its stages and its result."""

    due_s: float
    start_s: float
    done_s: float
    spans: tuple[Span, ...]
    result: Any


def feed(
    dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock, pace: Pace
) -> Iterator[PacedCall]:
    """Make the calls in order and yield each. A call that raises ends the stream; those yielded before it count."""
    if pace == "virtual":
        return _feed_virtual(dues_s, calls, clock)
    return _feed_by_clock(dues_s, calls, clock, may_sleep=pace == "idle")


def _feed_virtual(dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock) -> Iterator[PacedCall]:
    done_s = 0.0
    for due_s, call in zip(dues_s, calls, strict=True):
        timing = clock.time(call)
        start_s = max(due_s, done_s)
        done_s = start_s + timing.wall_s
        yield PacedCall(due_s, start_s, done_s, timing.spans, timing.result)


def _feed_by_clock(
    dues_s: Sequence[float], calls: Iterator[Callable[[], object]], clock: Clock, *, may_sleep: bool
) -> Iterator[PacedCall]:
    origin_ns = clock.now_ns()
    for due_s, call in zip(dues_s, calls, strict=True):
        # Absolute deadlines: a late chunk does not delay the ones after it.
        clock.wait_until_ns(origin_ns + round(due_s * 1e9), may_sleep=may_sleep)
        start_s = max(due_s, (clock.now_ns() - origin_ns) / 1e9)
        timing = clock.time(call)
        yield PacedCall(due_s, start_s, start_s + timing.wall_s, timing.spans, timing.result)
