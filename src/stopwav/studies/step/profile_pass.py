"""`stopwav step --profile`: one step under torch.profiler, its operators by module; no number comes from it."""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import REST, RowSet
from stopwav.measure.training_step import PhaseProfiler, StepTimer, TrainingJob, run_step

# Operators and kernels that are kept; the trace has them all.
MOST_OPERATORS = 40
# Kernels that are named for a module.
MOST_KERNELS = 5
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")

# (row, phase, nanoseconds since 1970)
Mark = tuple[str, str, int]


def profile_step(job: TrainingJob, rows: RowSet, folder: Path, index: int) -> dict[str, Any]:
    """Return the operators, kernels and idle time of one step, and which module they belong to."""
    path, marks = _trace(job, rows, folder, index)
    trace = json.loads(path.read_text(encoding="utf-8"))
    events: list[dict[str, Any]] = trace["traceEvents"]
    base_us = trace.get("baseTimeNanoseconds", 0) / 1e3
    modules, lost = _by_module(events, marks, base_us)
    _draw_modules(events, marks, base_us)
    path.write_text(json.dumps(trace), encoding="utf-8")
    return {"file": f"{folder.name}/{path.name}", "step": index, "modules": modules, "lost": lost, **_tables(path)}


def _trace(job: TrainingJob, rows: RowSet, folder: Path, index: int) -> tuple[Path, list[Mark]]:
    from stopwav.profiling.schedule import Schedule, Tracer

    marks: list[Mark] = []
    tracer = Tracer(folder, Schedule(wait=0, warmup=1, active=1, repeat=1))
    tracer.begin_cycle()
    try:
        run_step(job, index, PhaseProfiler(StepTimer()))  # the profiler's own first use is slow
        _synchronise(job)
        tracer.end_step()
        with ModuleProfiler(rows, lambda row, phase: marks.append((row, phase, time.time_ns()))) as profiler:
            run_step(job, index, profiler)
        _synchronise(job)
        marks.append((REST, "rest", time.time_ns()))
        tracer.end_step()
    finally:
        tracer.stop()
    return tracer.files[0], marks


def _tables(path: Path) -> dict[str, Any]:
    """The operators and kernels that took most, and the share of time in which the device did nothing."""
    from stopwav.profiling.analysis import analyse

    tables = analyse(path, report=False)
    operators = [operator for operator in tables.operators if operator.kind == "cpu_op"][:MOST_OPERATORS]
    kernels = tables.kernels[:MOST_OPERATORS]
    return {
        "operators": [[operator.name, operator.calls, operator.self_s, operator.total_s] for operator in operators],
        "kernels": [[kernel.name, kernel.calls, kernel.total_s] for kernel in kernels],
        "idle_share": tables.idle_share,
    }


def _by_module(events: Sequence[dict[str, Any]], marks: Sequence[Mark], base_us: float) -> tuple[list[list[Any]], int]:
    """The seconds, count and most expensive names of the work of each row and direction; and the kernels without one.

    A kernel belongs to the row that was active on the host when it was launched, forward or backward, in whichever
    thread. On the CPU the operators themselves are the work. A kernel without a launch in the trace belongs to no row.
    """
    moments = [start_ns / 1e3 - base_us for _, _, start_ns in marks]
    sums: dict[tuple[str, str], dict[str, list[float]]] = {}
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
        work = sums.setdefault((row, direction), {}).setdefault(name, [0, 0.0])
        work[0] += 1
        work[1] += length_us / 1e6
    lines = []
    for (row, direction), names in sums.items():
        most = sorted(names, key=lambda name: -names[name][1])[:MOST_KERNELS]
        total_s, count = sum(work[1] for work in names.values()), int(sum(work[0] for work in names.values()))
        lines.append([row, direction, total_s, count, most])
    return sorted(lines, key=lambda line: -line[2]), lost


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
