"""Spans that lie in one lane of a trace (a thread, or a device), kept in few bytes each, and what follows from them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

# Traces are written in steps of a nanosecond: what reaches out of its parent by ten of them is rounding.
ROUNDING_US = 0.01


@dataclass
class Lane:
    """Starts and lengths in microseconds, and a number for the name of each span: 24 bytes a span."""

    starts: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("d"))
    names: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start_us: float, length_us: float, name: int) -> None:
        """Keep one span."""
        self.starts.append(start_us)
        self.lengths.append(length_us)
        self.names.append(name)


@dataclass(frozen=True)
class Own:
    """One span with what is its own: its length less that of the spans nested in it."""

    name: int
    self_us: float
    length_us: float
    outermost: bool  # not inside a span of the same name
    astray: bool  # begins inside another span and ends after it


def own_times(lane: Lane) -> Iterator[Own]:
    """What each span's own time is. A child that ends after its parent takes from it only what lies inside."""
    import numpy as np

    starts, lengths = np.frombuffer(lane.starts), np.frombuffer(lane.lengths)
    own = lengths.copy()
    order = np.lexsort((-lengths, starts))  # of spans that begin together the longer is outside
    open_spans: list[tuple[float, int, int]] = []  # end, position, name
    facts: list[tuple[int, bool, bool]] = []
    for position in order.tolist():
        start, name = lane.starts[position], lane.names[position]
        end = start + lane.lengths[position]
        while open_spans and open_spans[-1][0] <= start:
            open_spans.pop()
        astray = False
        if open_spans:
            parent_end, parent, _ = open_spans[-1]
            own[parent] -= min(end, parent_end) - start
            astray = end > parent_end + ROUNDING_US
        facts.append((position, all(other != name for _, _, other in open_spans), astray))
        open_spans.append((end, position, name))
    for position, outermost, astray in facts:
        yield Own(lane.names[position], max(0.0, float(own[position])), lane.lengths[position], outermost, astray)


def busy_us(lane: Lane) -> tuple[float, float]:
    """The time in which at least one span was under way, and the time from the first start to the last end."""
    import numpy as np

    starts, lengths = np.frombuffer(lane.starts), np.frombuffer(lane.lengths)
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate((starts + lengths)[order])
    span = float(reached[-1] - starts[0])
    gaps = float(np.maximum(starts[1:] - reached[:-1], 0.0).sum())
    return span - gaps, span
