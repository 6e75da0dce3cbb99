"""The schedule of a loop's steps (skip, wait, warm-up, active), and the tracer that runs torch.profiler by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from stopwav.errors import StopwavError

Phase = Literal["skip", "wait", "warmup", "active", "done"]

# As tensorboard_trace_handler names them: host_pid.timestamp.pt.trace.json.
TRACES = "*.pt.trace.json"


@dataclass(frozen=True)
class Place:
    """The place of a step in the schedule: its phase, its cycle, and its number within the cycle."""

    phase: Phase
    cycle: int = 0
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """`skip_first` steps once, then cycles of `wait`, `warmup` and `active` steps, `repeat` times.

    The fields mean the same as in `torch.profiler.schedule`: `repeat=0` repeats until the loop ends, and with
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
        """The number of steps in one cycle."""
        return self.wait + self.warmup + self.active

    @property
    def first_active(self) -> int:
        """The first active step, counted from 0."""
        return self.skip_first + self.wait + self.warmup - self._steps_not_waited

    def steps_of(self, cycles: int) -> int:
        """Return the number of steps in a loop with that many cycles."""
        return self.skip_first + cycles * self.cycle_steps - self._steps_not_waited

    @property
    def _steps_not_waited(self) -> int:
        """The wait steps that the first cycle leaves out."""
        return self.wait if self.skip_first_wait else 0

    def place(self, index: int, cycles: int | None = None) -> Place:
        """Return the place of step `index`, counted from 0; `cycles` (0: no end) replaces `repeat`."""
        if index < self.skip_first:
            return Place("skip")
        cycle, number = divmod(index - self.skip_first + self._steps_not_waited, self.cycle_steps)
        end = self.repeat if cycles is None else cycles
        if end and cycle >= end:
            return Place("done", cycle)
        if number < self.wait:
            return Place("wait", cycle, number)
        return Place("warmup" if number < self.wait + self.warmup else "active", cycle, number)


def parse_schedule(value: Any) -> Schedule:
    """Return the schedule that an option gives: `wait=10,warmup=10,active=20,repeat=2`, its four numbers, or a mapping.

    What a text or a mapping leaves out is 0, and 1 for `active` and `repeat`.
    """
    defaults = {"wait": 0, "warmup": 0, "active": 1, "repeat": 1}
    try:
        if isinstance(value, Mapping):
            fields = {str(name): int(number) for name, number in value.items()}
        elif isinstance(value, str) and "=" in value:
            pairs = [part.partition("=") for part in value.split(",")]
            fields = {name.strip(): int(number) for name, _, number in pairs}
        else:
            numbers = [int(number) for number in (value.split(",") if isinstance(value, str) else value)]
            fields = dict(zip(defaults, numbers, strict=True))
        unknown = [name for name in fields if name not in defaults]
        if unknown or fields.get("repeat") == 0:
            raise ValueError
    except (TypeError, ValueError):
        message = "give wait, warmup, active and repeat (1 or more), such as wait=10,warmup=10,active=20,repeat=2"
        raise StopwavError(message) from None
    return Schedule(**{**defaults, **fields})


def schedule_text(schedule: Schedule) -> str:
    """Return the schedule as `parse_schedule` reads it."""
    return f"wait={schedule.wait},warmup={schedule.warmup},active={schedule.active},repeat={schedule.repeat}"


class Tracer:
    """Runs torch.profiler through cycles of a schedule, and exports each in TensorBoard's layout."""

    def __init__(self, folder: Path, schedule: Schedule, on_export: Callable[[Any, Path], None] | None = None) -> None:
        from importlib.util import find_spec

        if find_spec("torch") is None:
            raise StopwavError("profile_steps: trace= needs PyTorch, which is missing: pip install 'stopwav[torch]'")
        if not schedule.repeat:
            raise StopwavError(
                "profile_steps: repeat=0 measures until the loop ends and leaves no cycle to trace; give repeat=1"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StopwavError(f"profile_steps: trace={str(folder)!r}: {error.strerror}; name a folder") from error
        self._folder = folder
        self._schedule = schedule
        # Called with torch's profiler and its trace, after each cycle.
        self._on_export = on_export
        self._profiler: Any = None
        self._steps = 0
        self.files: list[Path] = []

    def begin_cycle(self) -> None:
        """Start the profiler for one cycle."""
        import torch

        self._steps = 0
        cycle = self._schedule
        self._profiler = torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=cycle.wait, warmup=cycle.warmup, active=cycle.active, repeat=1),
            on_trace_ready=self._export,
            profile_memory=True,
        )
        self._profiler.start()

    def end_step(self) -> None:
        """End the step; the last one of a cycle writes its trace."""
        self._steps += 1
        self._profiler.step()
        if self._steps == self._schedule.cycle_steps:
            self.stop()

    def stop(self) -> None:
        """Stop the profiler; an unfinished cycle leaves no trace."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None

    def _export(self, profiler: Any) -> None:
        if self._steps < self._schedule.cycle_steps:
            return
        import torch

        before = set(self._folder.glob(TRACES))
        torch.profiler.tensorboard_trace_handler(str(self._folder))(profiler)
        self.files += sorted(set(self._folder.glob(TRACES)) - before)
        if self._on_export is not None:
            self._on_export(profiler, self.files[-1])
