"""Cycles under torch.profiler, each exported as a trace in TensorBoard's log layout. They feed no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.profiling.schedule import Schedule

# As tensorboard_trace_handler names them: host_pid.timestamp.pt.trace.json.
TRACES = "*.pt.trace.json"


class Tracer:
    """Drives torch.profiler through cycles of a schedule, one at a time, and knows the files they made."""

    def __init__(self, folder: Path, schedule: Schedule) -> None:
        from importlib.util import find_spec

        if find_spec("torch") is None:
            raise StopwavError("profile_steps: trace= needs PyTorch, which is missing: pip install 'stopwav[torch]'")
        if not schedule.repeat:
            raise StopwavError(
                "profile_steps: repeat=0 measures to the loop's end and leaves no cycle to trace; give repeat from 1"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StopwavError(f"profile_steps: trace={str(folder)!r}: {error.strerror}; name a folder") from error
        self._folder = folder
        self._schedule = schedule
        self._profiler: Any = None
        self._steps = 0
        self.files: list[Path] = []

    def begin_cycle(self) -> None:
        """Start the profiler for one cycle."""
        import torch

        self._steps = 0
        plan = self._schedule
        self._profiler = torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=plan.wait, warmup=plan.warmup, active=plan.active, repeat=1),
            on_trace_ready=self._export,
            profile_memory=True,
        )
        self._profiler.start()

    def end_step(self) -> None:
        """End the step; with a cycle's last one its trace is written."""
        self._steps += 1
        self._profiler.step()
        if self._steps == self._schedule.cycle_steps:
            self.stop()

    def stop(self) -> None:
        """Stop the profiler; a cycle that is not finished leaves no trace."""
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
