"""The schedule of a loop's steps (skip, wait, warm-up, active), and the tracer that runs torch.profiler by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from stopwav.errors import StopwavError
from stopwav.measure.stages import Span, collect_and_forward_marks, spans_of
from stopwav.profiling.peaks import ForkLock
from stopwav.profiling.trace_additions import add_flops, add_stages, new_trace_path, read_trace, write_trace

Phase = Literal["skip", "wait", "warmup", "active", "done"]


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


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """The contents of a trace besides operators, kernels and stages, and how its file is named; PyTorch's names.

    `with_flops` and `with_modules` do more than PyTorch's, whose traces hold neither: FLOPs are written into the events
    of the operators that have them, and each call of an `nn.Module` is a span. `with_stack` also writes the stacks for
    FlameGraph beside the trace.
    """

    record_shapes: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    profile_memory: bool = True
    worker_name: str | None = None
    use_gzip: bool = False

    def __post_init__(self) -> None:
        if self.worker_name is not None and (not self.worker_name or Path(self.worker_name).name != self.worker_name):
            raise StopwavError(f"trace: worker name {self.worker_name!r} is not a file name; leave out slashes")

    @classmethod
    def of_details(cls, details: Collection[str], **options: Any) -> TraceOptions:
        """Return the options that record these details, named as in DETAILS."""
        recorded: dict[str, Any] = {option: name in details for name, option in DETAILS.items()}
        return cls(**recorded, **options)

    def check_folder(self, folder: object) -> None:
        """Raise if an option was given and there is no folder to trace to."""
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if given and folder is None:
            raise StopwavError(f"{given[0]}= says how to trace; give trace= too, the folder for the traces")


# The details of a trace as the command line names them.
DETAILS = {"shapes": "record_shapes", "stacks": "with_stack", "flops": "with_flops", "modules": "with_modules"}


# Held while a tracer is chosen, for about a microsecond.
_lock = ForkLock()


class Tracer:
    """Runs torch.profiler through cycles of a schedule, or one call, and exports each in TensorBoard's layout."""

    # The one that profiles now: torch.profiler allows one at a time, and what runs under it is in no measurement.
    current: ClassVar[Tracer | None] = None

    def __init__(
        self,
        folder: Path,
        schedule: Schedule,
        on_export: Callable[[Any, Path], None] | None = None,
        options: TraceOptions | None = None,
    ) -> None:
        from importlib.util import find_spec

        if find_spec("torch") is None:
            raise StopwavError("trace= needs PyTorch, which is missing: pip install 'stopwav[torch]'")
        if not schedule.repeat:
            raise StopwavError("trace=: repeat=0 has no end and leaves no cycle to trace; give repeat=1")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StopwavError(f"trace={str(folder)!r}: {error.strerror}; name a folder") from error
        self._folder = folder
        self._schedule = schedule
        # Called with torch's profiler and its trace, after each cycle.
        self._on_export = on_export
        self._options = options or TraceOptions()
        self._profiler: Any = None
        self._open: ExitStack | None = None
        self._steps = 0
        self._spans: list[Span] = []
        self.files: list[Path] = []
        # Those for FlameGraph, of all traces.
        self.stacks: list[Path] = []

    def claim(self) -> bool:
        """Take the profiler for this tracer, and return whether that worked: nobody else may be using it."""
        import torch

        with _lock:
            if Tracer.current is not None or torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
                return False
            Tracer.current = self
            return True

    @property
    def running(self) -> bool:
        """Whether the profiler of this tracer runs."""
        return self._profiler is not None

    def begin_cycle(self) -> None:
        """Start the profiler for one cycle."""
        import torch

        if not self.claim():
            raise StopwavError("trace=: torch.profiler runs already, and only one can; end it, or leave out trace=")
        cycle = self._schedule
        self._start(
            schedule=torch.profiler.schedule(wait=cycle.wait, warmup=cycle.warmup, active=cycle.active, repeat=1),
            on_trace_ready=self._export_cycle,
        )

    def end_step(self, spans: Sequence[Span] = ()) -> None:
        """End the step, with the stages it had since 1970; the last one of a cycle writes its trace."""
        self._steps += 1
        self._spans += spans
        self._profiler.step()
        if self._steps == self._schedule.cycle_steps:
            self.stop()

    def stop(self) -> None:
        """Stop the profiler; an unfinished cycle leaves no trace."""
        if self._profiler is not None:
            profiler, opened = self._profiler, self._open
            self._profiler = self._open = None
            with opened or ExitStack():
                profiler.stop()

    @contextmanager
    def record(self, *, keep: bool = True) -> Iterator[None]:
        """Profile the block, for which `claim` took the profiler; write its trace unless it raises or is not kept."""
        self._start()
        try:
            with collect_and_forward_marks(time.time_ns) as marks:
                yield
        except BaseException:
            self.stop()
            raise
        profiler, self._spans = self._profiler, list(spans_of(marks, 0))
        self.stop()
        if keep:
            self._export(profiler)

    def _start(self, **arguments: Any) -> None:
        import torch

        options = self._options
        self._steps, self._spans = 0, []
        with ExitStack() as opening:
            opening.callback(_end_current)
            profiler = torch.profiler.profile(
                **arguments,
                record_shapes=options.record_shapes,
                profile_memory=options.profile_memory,
                with_stack=options.with_stack,
                with_flops=options.with_flops,
                with_modules=options.with_modules,
            )
            if options.with_modules:
                from stopwav.profiling.module_spans import ModuleSpans

                opening.enter_context(ModuleSpans())
            profiler.start()
            self._profiler, self._open = profiler, opening.pop_all()

    def _export_cycle(self, profiler: Any) -> None:
        if self._steps == self._schedule.cycle_steps:
            self._export(profiler)

    def _export(self, profiler: Any) -> None:
        options = self._options
        path = new_trace_path(self._folder, options.worker_name, options.use_gzip)
        profiler.export_chrome_trace(str(path))
        self.files.append(path)
        if self._spans or options.with_flops or options.with_stack:  # else it is not read: it may be gigabytes
            self._complete(path, profiler)
        if self._on_export is not None:
            self._on_export(profiler, path)

    def _complete(self, path: Path, profiler: Any) -> None:
        """Add to a trace what torch.profiler leaves out of it, and write its stacks."""
        from stopwav.profiling.flame_stacks import write_stacks

        trace = read_trace(path)
        if self._options.with_flops:
            add_flops(trace, {event.id: event.flops for event in profiler.events() if event.flops})
        add_stages(trace, self._spans)
        write_trace(path, trace)
        if self._options.with_stack:
            self.stacks += write_stacks(path, trace)


def _end_current() -> None:
    Tracer.current = None
