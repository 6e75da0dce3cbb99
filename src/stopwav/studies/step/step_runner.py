"""The runner of a job's steps, in a worker or in the user's own process: clean steps, profiled steps, and memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

from stopwav.measure.float32_products import HeldPrecision
from stopwav.measure.labels import split_labels
from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import RowSet, rows_of
from stopwav.measure.training_step import (
    PHASES,
    PhaseProfiler,
    StepTime,
    StepTimer,
    TrainingBatch,
    TrainingJob,
    as_batch,
    run_step,
)
from stopwav.studies.step.spec import STEPS, StepSpec

# As METHOD has it for calls: the first one apart, then three at least, and a second's worth.
WARMUP_STEPS = 3
WARMUP_S = 1.0
MOST_WARMUP_STEPS = 20
# Of a round with a budget, first step and warm-up take this share at most, but for the first step itself.
WARMUP_SHARE = 0.3
# Changes of row that are timed to know the cost of one.
PROBES = 1000
# No screen is wider than a timeline of so many moments.
MOST_MOMENTS = 1000


class StepRunner:
    """A job made ready to be measured, step by step."""

    def __init__(
        self,
        job: TrainingJob,
        *,
        depth: int,
        modules: Sequence[str] = (),
        steps: int,
        load_s: float = 0.0,
        precision: HeldPrecision | None = None,
        now_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._job, self._steps, self._load_s = job, steps, load_s
        # None in the user's own process, whose settings are the user's.
        self._precision = precision
        self._timer = StepTimer(job.device, now_ns)
        self._now_ns = now_ns
        self._distributed = _is_distributed(job.model)
        # Whether the profiler has to walk the whole graph, as it must where a module's result is not part of the loss.
        self._walks = False
        self.rows = _rows(job.model, depth, modules)

    def warm_up(self, time_s: float | None = None) -> dict[str, Any]:
        """Run the first step and the warm-up, on the first batch; return their times and the rows of the model.

        `time_s` is the time of the whole round, a part of which is for this; None is no limit.
        """
        first_s = self._clean(0)[0].wall_s
        warmup_s: list[float] = []
        while len(warmup_s) < MOST_WARMUP_STEPS and self._has_time(first_s, warmup_s, time_s):
            # Processes that train together run as many steps each, whatever their clocks say.
            if len(warmup_s) >= WARMUP_STEPS and (self._distributed or sum(warmup_s) >= WARMUP_S):
                break
            warmup_s.append(self._clean(0)[0].wall_s)
        # Hooks have a first time too.
        if self._has_time(first_s, warmup_s, time_s):
            self._profiled(0)
        # What is imported in the first step may change the precision; what changes it again later is an error.
        if self._precision is not None:
            self._precision.hold("after the warm-up")
        return {
            "load_s": self._load_s,
            "first_s": first_s,
            "warmup_s": warmup_s,
            "switch_s": self._switch_cost(),
            "modules": [asdict(row) for row in self.rows.rows.values()],
            "shared": {name: list(others) for name, others in self.rows.shared.items()},
            "labels": dict(getattr(_inner(self._job.model), "labels", None) or {}),
            "model": type(_inner(self._job.model)).__name__,
            "compiled": _is_compiled(self._job.model),
            "device": self._job.device,
            "cautions": [] if self._precision is None else self._precision.said(),
        }

    @staticmethod
    def _has_time(first_s: float, warmup_s: Sequence[float], time_s: float | None) -> bool:
        """Whether one more step keeps the warm-up within its part of a round."""
        return time_s is None or first_s + sum(warmup_s) + min([first_s, *warmup_s]) <= WARMUP_SHARE * time_s

    def measure(self, index: int, warm: bool = True) -> dict[str, Any]:
        """Time a step without hooks and one with them, on the same batch, in alternating order, after a warm-up."""
        # A batch is a shape of its own: the first step on it may choose algorithms and ask for memory.
        if warm:
            self._clean(index)
        if index % 2 == 0:
            clean, batch = self._clean(index)
            profiled, profiler = self._profiled(index)
        else:
            profiled, profiler = self._profiled(index)
            clean, batch = self._clean(index)
        if self._precision is not None:
            self._precision.check()
        parts = [(split_labels(row), phase, part) for (row, phase), part in profiled.parts.items()]
        return {
            "batch": {name: getattr(batch, name) for name in ("utterances", "real_frames", "padded_frames")},
            "clean": _clean_to_json(clean),
            "watched": {
                "wall_s": profiled.wall_s,
                "device_s": profiled.device_s,
                "parts": [[row, phase, part.wall_s, part.device_s] for (row, _), phase, part in parts],
                "labels": [
                    [list(names), phase, part.wall_s, part.device_s] for (_, names), phase, part in parts if names
                ],
                "label_calls": [[list(names), count] for names, count in profiler.label_calls.items()],
                "calls": profiler.calls,
                "stages": sorted(profiler.stages),
                "recomputed": sorted(profiler.recomputed),
                "callers": {path: sorted(callers) for path, callers in profiler.callers.items()},
            },
        }

    def memory(self, index: int) -> dict[str, Any]:
        """Return the memory of a step and its timeline: of neighbouring moments the highest, where there are many."""
        from stopwav.measure.step_memory import measure_step_memory

        memory = measure_step_memory(self._job, self.rows, index)
        length = -(-len(memory.moments) // MOST_MOMENTS)
        groups = [memory.moments[start : start + length] for start in range(0, len(memory.moments), length)]
        moments = [max(group, key=lambda moment: moment.peak_bytes) for group in groups]
        return {
            "step": index,
            "held": memory.saved,
            "held_by_label": [[list(names), size] for names, size in memory.label_saved.items() if names],
            "gradients": memory.gradients,
            "states": memory.states,
            "peak": asdict(memory.peak),
            "baseline_bytes": memory.baseline_bytes,
            "method": memory.method,
            "moments": [[moment.row, moment.phase, moment.end_bytes, moment.peak_bytes] for moment in moments],
        }

    def largest(self) -> int:
        """Return the number of the batch with the most frames; the first where batches do not say how many."""
        sizes = [as_batch(self._job.make_batch(index)).padded_frames or 0 for index in range(self._steps)]
        return sizes.index(max(sizes))

    def profile(self, folder: Path, first: int, schedule: str) -> dict[str, Any]:
        """Profile steps from that batch on, by operator and by module; their traces go into the folder."""
        from stopwav.profiling.schedule import parse_schedule
        from stopwav.studies.step.profile_pass import profile_steps

        return profile_steps(self._job, self.rows, folder, first, self._steps, parse_schedule(schedule))

    def _clean(self, index: int) -> tuple[StepTime, TrainingBatch]:
        with _no_garbage_collection():
            self._timer.begin()
            batch = run_step(self._job, index, PhaseProfiler(self._timer))
            return self._timer.end(), batch

    def _profiled(self, index: int) -> tuple[StepTime, ModuleProfiler]:
        profiler = ModuleProfiler(
            self.rows, self._timer.mark, distributed=self._distributed, walk_graph=self._walks, now_ns=self._now_ns
        )
        # Hooks are set and removed outside of the step.
        with profiler, _no_garbage_collection():
            self._timer.begin()
            run_step(self._job, index, profiler)
            time = self._timer.end()
        if profiler.complete:
            return time, profiler
        self._walks = True
        return self._profiled(index)

    def _switch_cost(self) -> float:
        """Seconds that one change of row costs on the host."""
        self._timer.begin()
        start_s = perf_counter()
        for _ in range(PROBES):
            self._timer.mark("", "")
        return (perf_counter() - start_s) / PROBES


def make_runner(spec: StepSpec) -> StepRunner:
    """Return the runner of a spec, inside its worker."""
    from stopwav.measure.memory import limit_host_memory
    from stopwav.studies.step.job import make_job

    if spec.memory_limit_gb is not None:
        limit_host_memory(round(spec.memory_limit_gb * 1e9))
    start_s = perf_counter()
    job = make_job(spec)
    load_s = perf_counter() - start_s
    way_out = "" if spec.dtype == "tf32" else "--dtype tf32 measures it in TF32"
    precision = HeldPrecision(f"step {spec.model!r}", tf32=spec.dtype == "tf32", way_out=way_out)
    precision.hold("after the model was made")
    steps = spec.steps or STEPS
    return StepRunner(job, depth=spec.depth, modules=spec.modules, steps=steps, load_s=load_s, precision=precision)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not collect garbage within a step, clean or profiled: hooks leave more of it than a model."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _clean_to_json(time: StepTime) -> dict[str, Any]:
    phases = {name: time.phase(name) for name in PHASES}
    return {
        "wall_s": time.wall_s,
        "device_s": time.device_s,
        "phases": {name: [part.wall_s, part.device_s] for name, part in phases.items()},
    }


def _rows(model: Any, depth: int, modules: Sequence[str]) -> RowSet:
    # A compiled graph runs none of the modules it was made from: only the whole can be profiled.
    return rows_of(_inner(model), 0 if _is_compiled(model) else depth, () if _is_compiled(model) else modules)


def _inner(model: Any) -> Any:
    """The model inside training wrappers, which have no rows of their own."""
    if _is_distributed(model):
        return _inner(model.module)
    return model._orig_mod if _is_compiled(model) else model


def _is_compiled(model: Any) -> bool:
    inner = model.module if _is_distributed(model) else model
    return hasattr(inner, "_orig_mod")


def _is_distributed(model: Any) -> bool:
    return type(model).__name__ == "DistributedDataParallel"
