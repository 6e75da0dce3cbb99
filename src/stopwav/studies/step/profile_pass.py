"""`stopwav step --profile`: one step under torch.profiler, its kernels and operators by module. It feeds no time."""

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
from stopwav.measure.module_rows import RowSet
from stopwav.measure.training_step import PhaseProfiler, StepTimer, TrainingJob, run_step

# Lines of a table that somebody reads; the trace has them all.
MOST_LINES = 40
# Kernels that are named for a module.
MOST_KERNELS = 5
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")

# (row, phase, nanoseconds since 1970)
Mark = tuple[str, str, int]


def profile_step(job: TrainingJob, rows: RowSet, folder: Path, index: int) -> dict[str, Any]:
    """What the profiler saw of one step: operators, kernels, idle time, and which module they belong to."""
    path, marks = _traced(job, rows, folder, index)
    trace = json.loads(path.read_text(encoding="utf-8"))
    events: list[dict[str, Any]] = trace["traceEvents"]
    base_us = trace.get("baseTimeNanoseconds", 0) / 1e3
    by_module, lost = _by_module(events, marks, base_us)
    _draw_modules(events, marks, base_us)
    path.write_text(json.dumps(trace), encoding="utf-8")
    return {"file": f"{folder.name}/{path.name}", "step": index, "modules": by_module, "lost": lost, **_tables(path)}


def _traced(job: TrainingJob, rows: RowSet, folder: Path, index: int) -> tuple[Path, list[Mark]]:
    from stopwav.profiling.schedule import Schedule, Tracer

    marks: list[Mark] = []
    tracer = Tracer(folder, Schedule(wait=0, warmup=1, active=1, repeat=1))
    tracer.begin_cycle()
    try:
        run_step(job, index, PhaseProfiler(StepTimer()))  # the profiler's own first use is slow
        _wait(job)
        tracer.end_step()
        with ModuleProfiler(rows, lambda row, phase: marks.append((row, phase, time.time_ns()))) as watch:
            run_step(job, index, watch)
        _wait(job)
        marks.append(("(rest)", "rest", time.time_ns()))
        tracer.end_step()
    finally:
        tracer.stop()
    return tracer.files[0], marks


def _tables(path: Path) -> dict[str, Any]:
    """The operators and kernels that took most, and the share of time in which the device did nothing."""
    from stopwav.profiling.analysis import analyse

    found = analyse(path, report=False)
    operators = [one for one in found.operators if one.kind == "cpu_op"][:MOST_LINES]
    return {
        "operators": [[one.name, one.calls, one.self_s, one.total_s] for one in operators],
        "kernels": [[one.name, one.calls, one.total_s] for one in found.kernels[:MOST_LINES]],
        "idle_share": found.idle_share,
    }


def _by_module(events: Sequence[dict[str, Any]], marks: Sequence[Mark], base_us: float) -> tuple[list[list[Any]], int]:
    """For each row and direction: seconds, how many pieces of work, and the names that took most.

    A kernel belongs to who was at work on the host when it was launched: forward or backward, in whichever thread. On
    the CPU the operators themselves are the work. Also how many kernels have no launch in the trace.
    """
    moments = [at_ns / 1e3 - base_us for _, _, at_ns in marks]
    sums: dict[tuple[str, str], dict[str, list[float]]] = {}
    lost = 0
    for name, launched_us, length_us in _work(events):
        if launched_us is None:
            lost += 1
            continue
        place = bisect_right(moments, launched_us) - 1
        if place < 0:
            continue
        row, phase, _ = marks[place]
        direction = {"backward": "backward", "forward": "forward", "loss": "forward"}.get(phase, phase)
        one = sums.setdefault((row, direction), {}).setdefault(name, [0, 0.0])
        one[0] += 1
        one[1] += length_us / 1e6
    lines = []
    for (row, direction), names in sums.items():
        most = sorted(names, key=lambda name: -names[name][1])[:MOST_KERNELS]
        total_s, count = sum(one[1] for one in names.values()), int(sum(one[0] for one in names.values()))
        lines.append([row, direction, total_s, count, most])
    return sorted(lines, key=lambda line: -line[2]), lost


def _work(events: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float | None, float]]:
    """Each piece of work: its name, when the host asked for it, and how long it took, in microseconds."""
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
    """Operators with their own time: what operators inside them took is theirs."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "cpu_op" and event.get("ph") == "X":
            threads.setdefault(event.get("tid"), []).append(event)
    for own in threads.values():
        open_ones: list[list[Any]] = []  # name, start, end, own time
        for event in sorted(own, key=lambda one: (one["ts"], -one["dur"])):
            while open_ones and open_ones[-1][2] <= event["ts"]:
                name, start, _, length = open_ones.pop()
                yield name, start, length
            if open_ones:
                open_ones[-1][3] -= event["dur"]
            open_ones.append([event["name"], event["ts"], event["ts"] + event["dur"], event["dur"]])
        for name, start, _, length in reversed(open_ones):
            yield name, start, length


def _draw_modules(events: list[dict[str, Any]], marks: Sequence[Mark], base_us: float) -> None:
    """Add a track that shows who was at work."""
    for (row, phase, start_ns), (_, _, end_ns) in pairwise(marks):
        name = row.rpartition(":")[2] or "model"
        place = {"pid": os.getpid(), "tid": "modules", "ts": round(start_ns / 1e3 - base_us, 3)}
        length = round((end_ns - start_ns) / 1e3, 3)
        events.append({"ph": "X", "cat": "module", "name": name, **place, "dur": length, "args": {"phase": phase}})


def _wait(job: TrainingJob) -> None:
    if job.device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(job.device)
