"""Which steps of a loop are skipped, which warm up, and which are measured or traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stopwav.errors import StopwavError

Phase = Literal["skip", "wait", "warmup", "active", "done"]


@dataclass(frozen=True)
class Place:
    """Where a step stands: its phase, its cycle, and its number within the cycle."""

    phase: Phase
    cycle: int = 0
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """`skip_first` steps once, then cycles of `wait`, `warmup` and `active` steps, `repeat` times.

    The words and their meaning are those of `torch.profiler.schedule`; `repeat=0` goes on to the loop's end.
    """

    wait: int
    warmup: int
    active: int
    repeat: int = 0
    skip_first: int = 0

    def __post_init__(self) -> None:
        for name in ("wait", "warmup", "active", "repeat", "skip_first"):
            value, least = getattr(self, name), int(name == "active")
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise StopwavError(f"schedule: {name}={value!r}: give a whole number from {least}")

    @property
    def cycle_steps(self) -> int:
        """The steps of one cycle."""
        return self.wait + self.warmup + self.active

    def place(self, index: int, cycles: int | None = None) -> Place:
        """Where step `index`, counted from 0, stands; `cycles` (0: no end) in place of `repeat`."""
        if index < self.skip_first:
            return Place("skip")
        cycle, number = divmod(index - self.skip_first, self.cycle_steps)
        end = self.repeat if cycles is None else cycles
        if end and cycle >= end:
            return Place("done", cycle)
        if number < self.wait:
            return Place("wait", cycle, number)
        return Place("warmup" if number < self.wait + self.warmup else "active", cycle, number)
