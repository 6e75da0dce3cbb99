"""Which steps of a loop are skipped, which warm up, and which are measured or traced."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
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

    The words and their meaning are those of `torch.profiler.schedule`; `repeat=0` goes on to the loop's end, and with
    `skip_first_wait` other than 0 the first cycle does not wait.
    """

    wait: int
    warmup: int
    active: int
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: int = 0

    def __post_init__(self) -> None:
        for name in ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait"):
            value, least = getattr(self, name), int(name == "active")
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise StopwavError(f"schedule: {name}={value!r}: give a whole number from {least}")

    @property
    def cycle_steps(self) -> int:
        """The steps of one cycle."""
        return self.wait + self.warmup + self.active

    @property
    def first_active(self) -> int:
        """The first active step, counted from 0."""
        return self.skip_first + self.wait + self.warmup - self._waited

    def steps_of(self, cycles: int) -> int:
        """The steps of a loop with so many cycles."""
        return self.skip_first + cycles * self.cycle_steps - self._waited

    @property
    def _waited(self) -> int:
        """The steps that the first cycle does without."""
        return self.wait if self.skip_first_wait else 0

    def place(self, index: int, cycles: int | None = None) -> Place:
        """Where step `index`, counted from 0, stands; `cycles` (0: no end) in place of `repeat`."""
        if index < self.skip_first:
            return Place("skip")
        cycle, number = divmod(index - self.skip_first + self._waited, self.cycle_steps)
        end = self.repeat if cycles is None else cycles
        if end and cycle >= end:
            return Place("done", cycle)
        if number < self.wait:
            return Place("wait", cycle, number)
        return Place("warmup" if number < self.wait + self.warmup else "active", cycle, number)
