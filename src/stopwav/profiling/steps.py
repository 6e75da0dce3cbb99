"""`stopwav.profile_steps`: the steps of a training or batch loop, measured by a schedule."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from stopwav.errors import StopwavError
from stopwav.measure.clock import Clock
from stopwav.measure.stages import collect_and_forward_marks, current_frame, open_stage, spans_of, stage
from stopwav.profiling.profile import CallSample, Profile, check_clock, default_clock, sample_call
from stopwav.profiling.schedule import Phase, Schedule, TraceOptions, Tracer
from stopwav.stats.outliers import ControlChart, control_chart

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One active step: its number in the loop, counted from 0, its cycle, and its sample."""

    index: int
    cycle: int
    sample: CallSample

    @property
    def wall_s(self) -> float:
        """Its wall seconds."""
        return self.sample.wall_s


class Steps:
    """A measured loop. A step lasts from one `step()` to the next; the first begins with the `with` block.

    `profile` adds up the active steps and `active` lists them. Wait, warm-up and traced steps are in neither.
    """

    def __init__(
        self, schedule: Schedule, *, memory: bool, report: bool, clock: Clock | None, tracer: Tracer | None
    ) -> None:
        self.schedule = schedule
        self.profile = Profile("steps")
        self.active: list[Step] = []
        self.index = 0
        self._memory = memory
        self._report = report
        self._clock = clock
        self._tracer = tracer
        self._entered = False
        self._in_over = False
        # Whether the stages of this step are collected: it is measured, or recorded in a trace.
        self._collecting = False
        # The innermost frame where such a step began: the step has to end in the same one.
        self._frame: object = None
        # The stages of a step that is recorded in a trace.
        self._marks: list[tuple[str, int, int]] = []
        self._stack: ExitStack | None = None
        self._sample: CallSample | None = None

    def __enter__(self) -> Steps:
        if self._entered:
            raise StopwavError("profile_steps: this loop was already measured; make one for each `with`")
        self._entered = True
        self._begin_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stack is not None:
            # The last step was not ended by step(), so it does not count.
            self._stack.__exit__(kind, error, trace)
            self._stack = None
        if self._tracer is not None:
            self._tracer.stop()
        if self._report:
            from stopwav.profiling.tables import step_sheet
            from stopwav.report.terminal import print_sheet

            print_sheet(step_sheet(self))

    def __str__(self) -> str:
        from stopwav.profiling.tables import step_sheet
        from stopwav.report.terminal import sheet_text

        return sheet_text(step_sheet(self))

    @property
    def phase(self) -> Phase:
        """The phase of the current step: skip, wait, warmup, active, or done after the last cycle."""
        return self.schedule.place(self.index, self._cycles).phase

    @property
    def tracing(self) -> bool:
        """Whether the current step is in a cycle that is traced, not measured."""
        place = self.schedule.place(self.index, self._cycles)
        return place.phase not in ("skip", "done") and self._is_traced(place.cycle)

    @property
    def done(self) -> bool:
        """Whether the schedule is complete, so that the loop may be left."""
        return self.phase == "done"

    @property
    def times_s(self) -> tuple[float, ...]:
        """The wall seconds of the active steps."""
        return tuple(step.wall_s for step in self.active)

    @property
    def chart(self) -> ControlChart:
        """The upper control limit over the active steps; `above` are positions in `active`."""
        cycles: dict[int, list[float]] = {}
        for step in self.active:
            cycles.setdefault(step.cycle, []).append(step.wall_s)
        return control_chart(list(cycles.values()))

    @property
    def above_limit(self) -> tuple[Step, ...]:
        """The active steps above the upper control limit."""
        return tuple(self.active[position] for position in self.chart.above)

    @property
    def traces(self) -> tuple[Path, ...]:
        """The traces written so far."""
        return tuple(self._tracer.files) if self._tracer else ()

    @property
    def stacks(self) -> tuple[Path, ...]:
        """The stacks for FlameGraph written so far, with `with_stack`."""
        return tuple(self._tracer.stacks) if self._tracer else ()

    @property
    def traces_planned(self) -> int:
        """The number of traces that the schedule asks for."""
        return self.schedule.repeat if self._tracer else 0

    def step(self) -> None:
        """End the current step and begin the next."""
        if self._stack is None:
            raise StopwavError(
                "profile_steps: step() outside the `with` block; call it inside, at the end of each step"
            )
        if self._in_over:
            raise StopwavError("profile_steps: step() in a loop over steps.over(…), which ends each step; leave it out")
        # While its stages are collected, those open here are the step's own.
        if self._collecting and (path := open_stage()):
            raise StopwavError(f"profile_steps: step() inside stage {path!r}; end the stage before the step")
        if self._collecting and current_frame() is not self._frame:
            raise StopwavError(
                "profile_steps: step() inside a profiled function or block, or in another thread or task than the step "
                "began in; call it in the loop itself"
            )
        place = self.schedule.place(self.index, self._cycles)
        self._stack.close()
        if self._sample is not None:
            self.profile.add(self._sample)
            self.active.append(Step(self.index, place.cycle, self._sample))
        if self._tracer is not None and self.tracing:
            self._tracer.end_step(spans_of(self._marks, 0))
        self.index += 1
        self._begin_step()

    def over(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches and end a step after each; loading a batch is the stage `data` of its step."""
        iterator = iter(batches)
        end = object()
        try:
            while True:
                with stage("data"):
                    batch = next(iterator, end)
                if batch is end:
                    return
                self._in_over = True
                yield batch  # type: ignore[misc]
                self._in_over = False
                self.step()
        finally:
            self._in_over = False

    @property
    def _cycles(self) -> int:
        """All cycles: the measured ones, then as many traced ones. A profiler slows even what comes after it."""
        return self.schedule.repeat * (2 if self._tracer else 1)

    def _is_traced(self, cycle: int) -> bool:
        return self._tracer is not None and cycle >= self.schedule.repeat

    def _begin_step(self) -> None:
        self._stack = ExitStack()
        self._sample, self._marks = None, []
        place = self.schedule.place(self.index, self._cycles)
        self._collecting = place.phase == "active"
        tracer = self._tracer if self.tracing else None
        if tracer is not None and not tracer.running:
            tracer.begin_cycle()
        if not self._collecting:
            return
        if tracer is not None:
            self._marks = self._stack.enter_context(collect_and_forward_marks(time.time_ns))
        else:
            self._stack.enter_context(sample_call(self._keep, self._clock or default_clock(), self._memory))
        self._frame = current_frame()

    def _keep(self, sample: CallSample) -> None:
        self._sample = sample


def profile_steps(
    schedule: Schedule | None = None,
    *,
    wait: int | None = None,
    warmup: int | None = None,
    active: int | None = None,
    repeat: int | None = None,
    skip_first: int | None = None,
    skip_first_wait: int | None = None,
    trace: str | Path | None = None,
    record_shapes: bool = False,
    profile_memory: bool = True,
    with_stack: bool = False,
    with_flops: bool = False,
    with_modules: bool = False,
    worker_name: str | None = None,
    use_gzip: bool = False,
    memory: bool = True,
    report: bool = True,
    clock: Clock | None = None,
) -> Steps:
    """Measure the steps of a loop: `with stopwav.profile_steps(wait=1, warmup=1, active=3, repeat=2) as steps:`.

    Give a `Schedule` or its fields. Call `steps.step()` at the end of each step, or loop `for batch in
    steps.over(loader)`. With `trace` and PyTorch, as many cycles follow under torch.profiler, each exported to that
    folder with the stages of its active steps; they feed no number. `record_shapes` to `use_gzip` say what a trace
    holds and how its file is named, as in PyTorch. When the block ends a table goes to standard error, unless `report`
    is off.
    """
    check_clock(clock)
    given = {
        "wait": wait,
        "warmup": warmup,
        "active": active,
        "repeat": repeat,
        "skip_first": skip_first,
        "skip_first_wait": skip_first_wait,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    if schedule is not None and fields:
        raise StopwavError(f"profile_steps: give a schedule or its fields, not both (got {', '.join(fields)} as well)")
    if schedule is None:
        if missing := [name for name in ("wait", "warmup", "active") if name not in fields]:
            raise StopwavError(f"profile_steps: {missing[0]}= is missing; give wait, warmup and active, or a Schedule")
        schedule = Schedule(**fields)
    if not isinstance(schedule, Schedule):
        raise StopwavError(
            f"profile_steps: {schedule!r} is not a schedule; give stopwav.Schedule(wait=…, warmup=…, active=…)"
        )
    options = TraceOptions(
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        with_stack=with_stack,
        with_flops=with_flops,
        with_modules=with_modules,
        worker_name=worker_name,
        use_gzip=use_gzip,
    )
    options.check_folder(trace)
    tracer = None if trace is None else Tracer(Path(trace), schedule, options=options)
    return Steps(schedule, memory=memory, report=report, clock=clock, tracer=tracer)
