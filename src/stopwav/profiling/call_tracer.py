"""Traces of a profiled function: some of its calls run under torch.profiler, each with a trace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stopwav.profiling.schedule import Schedule, TraceOptions, Tracer

# The profiler's own first use is slow: the first call warms it up, the second is recorded.
ONE_CALL = Schedule(wait=0, warmup=1, active=1, repeat=1)


@dataclass(frozen=True)
class CallTraceRequest:
    """Which calls of a function are traced, into which folder, and with which details."""

    folder: Path
    schedule: Schedule
    options: TraceOptions


class CallTracer:
    """The traced calls of one function. Its schedule counts the calls that completed."""

    def __init__(self, request: CallTraceRequest) -> None:
        self._tracer = Tracer(request.folder, request.schedule, options=request.options)
        self._schedule = request.schedule
        self._calls = 0

    @property
    def files(self) -> tuple[Path, ...]:
        """The traces so far."""
        return tuple(self._tracer.files)

    @property
    def stacks(self) -> tuple[Path, ...]:
        """The stacks for FlameGraph so far."""
        return tuple(self._tracer.stacks)

    @property
    def planned(self) -> int:
        """The number of traces that the schedule asks for: one for each active call."""
        return self._schedule.active * self._schedule.repeat

    @property
    def calls_needed(self) -> int:
        """The number of calls after which all traces are written."""
        return self._schedule.steps_of(self._schedule.repeat)

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Run the block under the profiler where the schedule says so, and yield whether it does.

        While another profiler runs, the turn is left to a later call. A call that raises leaves no trace.
        """
        phase = self._schedule.place(self._calls).phase
        due = phase in ("warmup", "active")
        if due and self._tracer.claim():
            with self._tracer.record(keep=phase == "active"):
                yield True
        else:
            yield False
            if due:
                return
        self._calls += 1
