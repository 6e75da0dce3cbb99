"""`stopwav grid --traces`: a profiler trace of each cell, from a pass of its own that no number comes from."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import Caution
from stopwav.measure.launcher import open_process
from stopwav.measure.memory import limit_host_memory
from stopwav.measure.plan import Workload
from stopwav.measure.stages import Span, collect_marks, spans_of, stage
from stopwav.piece import Piece
from stopwav.profiling.schedule import TraceOptions
from stopwav.profiling.trace_additions import OPERATOR, Trace, add_stages, new_trace_path, write_trace
from stopwav.profiling.trace_file import TraceFile
from stopwav.record import Record
from stopwav.studies.grid.cell import BatchCall, CellWorkload, GridCell, exact
from stopwav.studies.grid.cells import cells_of, measurements
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.traces import failed_trace_warning, traces_folder
from stopwav.studies.worker import outcome_to_piece


@dataclass(frozen=True)
class TraceSettings:
    """The contents of the trace of a cell: how many calls, and which details."""

    calls: int
    options: TraceOptions
    # Sets traces of one cell apart that hold different things; "" for one call without details.
    label: str


def trace_settings(spec: GridSpec) -> TraceSettings:
    """Return what a run's traces hold."""
    options = TraceOptions.of_details(spec.trace_details, worker_name=spec.trace_worker, use_gzip=spec.trace_gzip)
    calls = [f"{spec.trace_calls}-calls"] if spec.trace_calls > 1 else []
    return TraceSettings(spec.trace_calls, options, "-".join([*spec.trace_details, *calls]))


def trace_cells(spec: GridSpec, record: Record) -> None:
    """Trace every cell that completed and has no trace yet; how each pass ended is stored at once."""
    good = {cell for cell, measured in measurements(record) if measured.good}
    cells = [cell for cell in cells_of(spec) if cell in good]
    for done, cell in enumerate(cells, start=1):
        if _key(cell, trace_settings(spec)) not in record:
            record.append(_trace(spec, cell, traces_folder(record)))
        spec.report("tracing", done, len(cells))


def trace_warnings(record: Record, cell: GridCell) -> tuple[Caution, ...]:
    """Return the warnings about a cell's newest trace: that there is none, or that the profiler saw nothing."""
    place = ["trace", *cell.key]
    pieces = [piece for piece in record.pieces if list(piece.key[: len(place)]) == place]
    if not pieces:
        return ()
    piece = pieces[-1]
    if piece.status != "ok":
        return (failed_trace_warning(piece),)
    if not piece.data["operators"]:
        message = "the engine ran no PyTorch operator: the trace holds the call and the stages it marks, nothing else"
        return (Caution("trace-empty", message),)
    return ()


class TracedPass:
    """Inside its fresh process: a cell's call once to warm up, and then under the profiler."""

    def __init__(self, workload: Workload, folder: Path, settings: TraceSettings, limit_bytes: int | None) -> None:
        self._workload, self._folder, self._settings = workload, folder, settings
        if limit_bytes is not None:
            limit_host_memory(limit_bytes)

    def run(self) -> tuple[list[str], int]:
        """Return the names of the trace file and of its stacks, and how many operators of PyTorch it holds."""
        call = self._workload.setup()
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.iterdir():
            left.unlink()  # of a pass that was killed: a cell has one trace
        # An engine that has not imported PyTorch by now may still do so in its first call.
        call()
        trace = _profiled if "torch" in sys.modules else _unprofiled
        files = trace(call, self._folder, self._settings)
        operators = sum(event.get("cat") == OPERATOR for event in TraceFile(files[0]).events())
        return [path.name for path in files], operators


def _key(cell: GridCell, settings: TraceSettings) -> tuple[str | int, ...]:
    return ("trace", *cell.key, *([settings.label] if settings.label else []))


def _trace(spec: GridSpec, cell: GridCell, folder: Path) -> Piece:
    plan, settings = plan_of(spec), trace_settings(spec)
    workload = CellWorkload(engine_of(spec, cell.lane), cell, spec.audio, spec.seed)
    of = f"engine-{spec.lanes.index(cell.lane) + 1}" if cell.lane else ""
    own = folder / "-".join(filter(None, (of, f"{exact(cell.duration_s)}s-x{cell.batch_size}", settings.label)))
    factory: Callable[..., object] = TracedPass
    with open_process(factory, workload, own, settings, plan.memory_limit_bytes) as process:
        outcome = process.start(plan.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=plan.time_limit_s)
    data: dict[str, Any] = {}
    if outcome.ok:
        (file, *stacks), operators = outcome.value
        place = f"{folder.name}/{own.name}"
        data = {"file": f"{place}/{file}", "operators": operators}
        if stacks:
            data["stacks"] = [f"{place}/{name}" for name in stacks]
    return outcome_to_piece(_key(cell, settings), outcome, data)


def _profiled(call: Callable[[], object], folder: Path, settings: TraceSettings) -> list[Path]:
    """The trace that torch.profiler made of the calls, with their stages, and its stacks."""
    from stopwav.profiling.schedule import Schedule, Tracer

    tracer = Tracer(folder, Schedule(wait=0, warmup=1, active=settings.calls, repeat=1), options=settings.options)
    tracer.begin_cycle()
    try:
        call()  # the profiler's own first use is slow
        tracer.end_step()
        for _ in range(settings.calls):
            tracer.end_step(_spans(call))
    finally:
        tracer.stop()
    return [*tracer.files, *tracer.stacks]


def _unprofiled(call: Callable[[], object], folder: Path, settings: TraceSettings) -> list[Path]:
    """A trace of the calls' stages alone, named as torch.profiler would."""
    path = new_trace_path(folder, settings.options.worker_name, settings.options.use_gzip)
    trace: Trace = {"schemaVersion": 1, "traceEvents": []}
    for _ in range(settings.calls):
        add_stages(trace, _spans(call))
    write_trace(path, trace)
    return [path]


def _spans(call: Callable[[], object]) -> tuple[Span, ...]:
    """The stages of a call, itself the outermost, by the clock that traces of torch.profiler are in."""
    if isinstance(call, BatchCall):
        call.prepare_calls(1)
    with collect_marks(time.time_ns) as marks, stage(getattr(call, "stage", "call")):
        call()
    return spans_of(marks, 0)
