"""`stopwav step --profile`: steps under torch.profiler, their operators by module; no number comes from them."""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.measure.labels import split_labels
from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import REST, RowSet
from stopwav.measure.training_step import PhaseProfiler, StepTimer, TrainingJob, run_step

if TYPE_CHECKING:
    from stopwav.profiling.schedule import Schedule

# The profiler's own table stands next to its trace, under the same name.
OPERATORS = ".operators.txt"
# Names of kernels are long; a longer one is cut in that table, and whole in the run file.
LONGEST_NAME = 100
# Kernels that are named for a module.
MOST_KERNELS = 5
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")

# (row, phase, nanoseconds since 1970)
Mark = tuple[str, str, int]


@dataclass(frozen=True)
class _Cycle:
    """The trace of the active steps of one cycle, and the rows that were active in them."""

    path: Path
    marks: list[Mark]


# By row and direction: the count and the seconds of each name.
_Work = dict[tuple[str, str], dict[str, list[float]]]


def profile_steps(
    job: TrainingJob, rows: RowSet, folder: Path, first: int, batches: int, schedule: Schedule
) -> dict[str, Any]:
    """Return the operators, kernels and idle time of the active steps, and which module they belong to."""
    from stopwav.profiling.schedule import schedule_text

    for leftover in folder.glob("*.pt.trace.*"):
        leftover.unlink()  # of a process that was killed before its profile was recorded
    work: _Work = {}
    lost = 0
    cycles = _run_schedule(job, rows, folder, first, batches, schedule)
    for cycle in cycles:
        trace = json.loads(cycle.path.read_text(encoding="utf-8"))
        events: list[dict[str, Any]] = trace["traceEvents"]
        base_us = trace.get("baseTimeNanoseconds", 0) / 1e3
        lost += _add_work(work, events, cycle.marks, base_us)
        _draw_modules(events, cycle.marks, base_us)
        cycle.path.write_text(json.dumps(trace), encoding="utf-8")
    files = [f"{folder.name}/{cycle.path.name}" for cycle in cycles]
    return {
        "file": files[0],
        "files": files,
        "operator_tables": [str(Path(file).with_suffix(OPERATORS)) for file in files],
        "step": first,
        "steps": schedule.active * schedule.repeat,
        "schedule": schedule_text(schedule),
        "modules": _by_module(work),
        "lost": lost,
        **_tables(folder),
    }


def _run_schedule(
    job: TrainingJob, rows: RowSet, folder: Path, first: int, batches: int, schedule: Schedule
) -> list[_Cycle]:
    """Run the steps; waiting and warming up are on the first batch, and active steps go on from there."""
    from stopwav.profiling.schedule import Tracer

    tracer = Tracer(folder, schedule, _write_operators)
    cycles = []
    for _ in range(schedule.repeat):
        marks: list[Mark] = []
        tracer.begin_cycle()
        try:
            for number in range(-schedule.wait - schedule.warmup, schedule.active):
                if number < 0:
                    run_step(job, first, PhaseProfiler(StepTimer()))
                    _synchronise(job)
                else:
                    _run_marked(job, rows, (first + number) % batches, marks)
                tracer.end_step()
        finally:
            tracer.stop()
        cycles.append(_Cycle(tracer.files[-1], marks))
    return cycles


def _run_marked(job: TrainingJob, rows: RowSet, index: int, marks: list[Mark]) -> None:
    def mark(row: str, phase: str) -> None:
        marks.append((split_labels(row)[0], phase, time.time_ns()))

    with ModuleProfiler(rows, mark) as profiler:
        run_step(job, index, profiler)
    _synchronise(job)
    mark(REST, "rest")


def _write_operators(profiler: Any, trace: Path) -> None:
    """Write the profiler's own table of every operator, kernel and label next to the trace."""
    averages = profiler.key_averages()
    on_device = any(average.self_device_time_total for average in averages)
    order = "self_device_time_total" if on_device else "self_cpu_time_total"
    table = averages.table(sort_by=order, row_limit=-1, max_name_column_width=LONGEST_NAME)
    trace.with_suffix(OPERATORS).write_text(f"{table}\n", encoding="utf-8")


def _tables(folder: Path) -> dict[str, Any]:
    """Every operator and kernel, the longest first, and the share of time in which the device did nothing."""
    from stopwav.profiling.analysis import analyse

    tables = analyse(folder, report=False)
    operators = [operator for operator in tables.operators if operator.kind == "cpu_op"]
    return {
        "operators": [[operator.name, operator.calls, operator.self_s, operator.total_s] for operator in operators],
        "kernels": [[kernel.name, kernel.calls, kernel.total_s] for kernel in tables.kernels],
        "idle_share": tables.idle_share,
    }


def _add_work(work: _Work, events: Sequence[dict[str, Any]], marks: Sequence[Mark], base_us: float) -> int:
    """Add the count and seconds of each name by row and direction; return how many kernels belong to no row.

    A kernel belongs to the row that was active on the host when it was launched, forward or backward, in whichever
    thread. On the CPU the operators themselves are the work. A kernel without a launch in the trace belongs to no row.
    """
    moments = [start_ns / 1e3 - base_us for _, _, start_ns in marks]
    lost = 0
    for name, launched_us, length_us in _work(events):
        if launched_us is None:
            lost += 1
            continue
        position = bisect_right(moments, launched_us) - 1
        if position < 0:
            continue
        row, phase, _ = marks[position]
        direction = {"backward": "backward", "forward": "forward", "loss": "forward"}.get(phase, phase)
        sums = work.setdefault((row, direction), {}).setdefault(name, [0, 0.0])
        sums[0] += 1
        sums[1] += length_us / 1e6
    return lost


def _by_module(work: _Work) -> list[list[Any]]:
    """The seconds, count and most expensive names of the work of each row and direction."""
    lines = []
    for (row, direction), names in work.items():
        most = sorted(names, key=lambda name: -names[name][1])[:MOST_KERNELS]
        total_s, count = sum(sums[1] for sums in names.values()), int(sum(sums[0] for sums in names.values()))
        lines.append([row, direction, total_s, count, most])
    return sorted(lines, key=lambda line: -line[2])


def _work(events: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float | None, float]]:
    """Each piece of work: its name, when the host launched it, and how long it took, in microseconds."""
    kernels = [event for event in events if event.get("cat") in _KERNELS]
    if not kernels:
        yield from _own_operators(events)
        return
    launches = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event.get("cat") in _LAUNCHES and "correlation" in event.get("args", {})
    }
    for event in kernels:
        yield event["name"], launches.get(event.get("args", {}).get("correlation")), float(event.get("dur", 0))


def _own_operators(events: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float | None, float]]:
    """Operators with their own time, without that of operators inside them."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "cpu_op" and event.get("ph") == "X":
            threads.setdefault(event.get("tid"), []).append(event)
    for operators in threads.values():
        stack: list[list[Any]] = []  # name, start, end, own time
        for event in sorted(operators, key=lambda operator: (operator["ts"], -operator["dur"])):
            while stack and stack[-1][2] <= event["ts"]:
                name, start, _, length = stack.pop()
                yield name, start, length
            if stack:
                stack[-1][3] -= event["dur"]
            stack.append([event["name"], event["ts"], event["ts"] + event["dur"], event["dur"]])
        for name, start, _, length in reversed(stack):
            yield name, start, length


def _draw_modules(events: list[dict[str, Any]], marks: Sequence[Mark], base_us: float) -> None:
    """Add a track that shows which row was active."""
    for (row, phase, start_ns), (_, _, end_ns) in pairwise(marks):
        name = row.rpartition(":")[2] or "model"
        place = {"pid": os.getpid(), "tid": "modules", "ts": round(start_ns / 1e3 - base_us, 3)}
        length = round((end_ns - start_ns) / 1e3, 3)
        events.append({"ph": "X", "cat": "module", "name": name, **place, "dur": length, "args": {"phase": phase}})


def _synchronise(job: TrainingJob) -> None:
    if job.device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(job.device)
