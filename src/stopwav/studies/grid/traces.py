"""`stopwav grid --traces`: a profiler trace of each cell, from a pass of its own that no number comes from."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stopwav.errors import Caution
from stopwav.measure.memory import limit_host_memory
from stopwav.measure.plan import Workload
from stopwav.measure.process import FreshProcess
from stopwav.measure.stages import Span, collect_marks, spans_of, stage
from stopwav.profiling.schedule import TRACES
from stopwav.record import Piece, Record
from stopwav.studies.grid.cell import CellWorkload, GridCell, cells_of, exact, measurements
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.traces import failed_trace_warning, traces_folder
from stopwav.studies.worker import outcome_to_piece

# What torch.profiler calls an operator; its marks of its own steps are in every trace.
_OPERATOR = "cpu_op"


def trace_cells(spec: GridSpec, record: Record) -> None:
    """Trace every cell that completed and has no trace yet; how each pass ended is stored at once."""
    good = {cell for cell, measured in measurements(record) if measured.good}
    cells = [cell for cell in cells_of(spec) if cell in good]
    for done, cell in enumerate(cells, start=1):
        if _key(cell) not in record:
            record.append(_trace(spec, cell, traces_folder(record)))
        spec.report("tracing", done, len(cells))


def trace_warnings(record: Record, cell: GridCell) -> tuple[Caution, ...]:
    """Return the warnings about a cell's trace: that there is none, or that the profiler saw nothing."""
    piece = next((piece for piece in record.pieces if tuple(piece.key) == _key(cell)), None)
    if piece is None:
        return ()
    if piece.status != "ok":
        return (failed_trace_warning(piece),)
    if not piece.data["operators"]:
        message = "the engine ran no PyTorch operator: the trace holds the call and the stages it marks, nothing else"
        return (Caution("trace-empty", message),)
    return ()


class TracedPass:
    """Inside its fresh process: a cell's call once to warm up, and once under the profiler."""

    def __init__(self, workload: Workload, folder: Path, limit_bytes: int | None) -> None:
        self._workload, self._folder = workload, folder
        if limit_bytes is not None:
            limit_host_memory(limit_bytes)

    def run(self) -> tuple[str, int]:
        """Return the name of the trace file, and how many operators of PyTorch are in it."""
        call = self._workload.setup()
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob(TRACES):
            left.unlink()  # of a pass that was killed: a cell has one trace
        # An engine that has not imported PyTorch by now may still do so in its first call.
        call()
        path, spans = _profiled(call, self._folder) if "torch" in sys.modules else _unprofiled(call, self._folder)
        return path.name, _add_stages(path, spans)


def _key(cell: GridCell) -> tuple[str | int, ...]:
    return ("trace", exact(cell.duration_s), cell.batch_size)


def _trace(spec: GridSpec, cell: GridCell, folder: Path) -> Piece:
    plan = plan_of(spec)
    workload = CellWorkload(engine_of(spec), cell, spec.audio, spec.seed)
    own = folder / f"{exact(cell.duration_s)}s-x{cell.batch_size}"
    factory: Callable[..., object] = TracedPass
    with FreshProcess(factory, workload, own, plan.memory_limit_bytes) as process:
        outcome = process.start(plan.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=plan.time_limit_s)
    data: dict[str, Any] = {}
    if outcome.ok:
        name, operators = outcome.value
        data = {"file": f"{folder.name}/{own.name}/{name}", "operators": operators}
    return outcome_to_piece(_key(cell), outcome, data)


def _profiled(call: Callable[[], object], folder: Path) -> tuple[Path, tuple[Span, ...]]:
    """The trace that torch.profiler made of a call, and the call's stages."""
    from stopwav.profiling.schedule import Schedule, Tracer

    tracer = Tracer(folder, Schedule(wait=0, warmup=1, active=1, repeat=1))
    tracer.begin_cycle()
    try:
        call()  # the profiler's own first use is slow
        tracer.end_step()
        spans = _spans(call)
        tracer.end_step()
    finally:
        tracer.stop()
    return tracer.files[0], spans


def _unprofiled(call: Callable[[], object], folder: Path) -> tuple[Path, tuple[Span, ...]]:
    """A trace that is still empty, named as torch.profiler would, and the call's stages."""
    import socket

    path = folder / f"{socket.gethostname()}_{os.getpid()}.{time.time_ns()}.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": []}))
    return path, _spans(call)


def _spans(call: Callable[[], object]) -> tuple[Span, ...]:
    """The stages of a call, itself the outermost, by the clock that traces of torch.profiler are in."""
    with collect_marks(time.time_ns) as marks, stage("transcribe"):
        call()
    return spans_of(marks, 0)


def _add_stages(path: Path, spans: Sequence[Span]) -> int:
    """Write the stages into a trace, as a track of their own, and return how many operators are in it."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    events: list[dict[str, Any]] = trace["traceEvents"]
    operators = [event for event in events if event.get("cat") == _OPERATOR]
    track = {"pid": os.getpid(), "tid": "stages"}
    # Times count from the moment that the file names, and where it names none from 1970.
    base_us = trace.get("baseTimeNanoseconds", 0) / 1e3
    for span in spans:
        start_us, length_us = round(1e6 * span.start_s - base_us, 3), round(1e6 * span.duration_s, 3)
        name = {"ph": "X", "cat": "stage", "name": span.path.rpartition("/")[2], "args": {"path": span.path}}
        events.append({**name, **track, "ts": start_us, "dur": length_us})
    path.write_text(json.dumps(trace), encoding="utf-8")
    return len(operators)
