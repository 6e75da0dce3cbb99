"""A trace as torch.profiler wrote it, and what stopwav adds to it afterwards: FLOPs and a track of stages."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stopwav.measure.stages import Span

# As tensorboard_trace_handler names them: worker.timestamp.pt.trace.json, with .gz where they are compressed.
SUFFIX = ".pt.trace.json"
# What torch.profiler calls an operator; its marks of its own steps are in every trace.
OPERATOR = "cpu_op"

Trace = dict[str, Any]


def new_trace_path(folder: Path, worker_name: str | None, use_gzip: bool) -> Path:
    """Return the path of a trace that is written now."""
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    return folder / f"{worker}.{time.time_ns()}{SUFFIX}{'.gz' if use_gzip else ''}"


def read_trace(path: Path) -> Trace:
    """Return the whole content of a trace file."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        trace: Trace = json.load(file)
    return trace


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace file, compressed where its name says so."""
    with gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8") as file:
        json.dump(trace, file)


def add_flops(trace: Trace, flops: Mapping[int, int]) -> None:
    """Write the FLOPs of each operator into its event: torch.profiler counts and omits them."""
    for event in trace["traceEvents"]:
        number = event.get("args", {}).get("External id")
        if event.get("cat") == OPERATOR and number in flops:
            event["args"]["flops"] = flops[number]


def add_stages(trace: Trace, spans: Sequence[Span]) -> None:
    """Add the stages as a track of their own; their times count from 1970, as those of torch.profiler do."""
    # Times count from the moment that the file names, and where it names none from 1970.
    base_us = trace.get("baseTimeNanoseconds", 0) / 1e3
    track = {"ph": "X", "cat": "stage", "pid": os.getpid(), "tid": "stages"}
    for span in spans:
        start_us, length_us = round(1e6 * span.start_s - base_us, 3), round(1e6 * span.duration_s, 3)
        name = {"name": span.path.rpartition("/")[2], "args": {"path": span.path}}
        trace["traceEvents"].append({**track, **name, "ts": start_us, "dur": length_us})
