"""The frontier of a grid: for a duration, the largest batch that fits, found by doubling and then by bisection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from stopwav.measure.launcher import ask_machine, open_process
from stopwav.measure.memory import limit_host_memory
from stopwav.measure.plan import Workload
from stopwav.measure.process import Outcome
from stopwav.record import Record
from stopwav.studies.frontier import Frontier, free_memory_limit_bytes, frontier_of, next_batch
from stopwav.studies.grid.cell import CellWorkload, GridCell, exact
from stopwav.studies.grid.spec import GridSpec, device_of, engine_of, plan_of
from stopwav.studies.worker import outcome_to_piece


class Probe:
    """Inside its fresh process: transcribes a batch once."""

    def __init__(self, workload: Workload, limit_bytes: int | None) -> None:
        self._workload = workload
        if limit_bytes is not None:
            limit_host_memory(limit_bytes)

    def run(self) -> None:
        """Transcribe the batch once; whatever goes wrong is the answer."""
        self._workload.setup()()


def find_frontier(spec: GridSpec, record: Record, lane: str, duration_s: float, within_s: float = math.inf) -> None:
    """Probe batches of a duration until the largest that fits is known, or time is up; each probe is stored at once."""
    limit_bytes, end_s = _limit_bytes(spec, lane), time.monotonic() + within_s
    while (size := next_batch(grid_frontier(record, lane, duration_s), spec.batch_sizes[0])) is not None:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return
        cell = GridCell(duration_s, size, lane)
        outcome = _probe(spec, cell, limit_bytes, left_s)
        if outcome.status == "timeout" and left_s < plan_of(spec).time_limit_s:
            return  # the search ended, and not what a probe may take
        record.append(outcome_to_piece(("frontier", *cell.key), outcome, {"memory_limit_bytes": limit_bytes}))


def grid_frontier(record: Record, lane: str, duration_s: float) -> Frontier:
    """Return what the probes of a duration say, and those of its cells that were measured or ran out of memory."""
    pieces = record.pieces
    row = [*([lane] if lane else []), exact(duration_s)]
    probed = [(int(piece.key[-1]), piece) for piece in pieces if piece.key[:-1] == ["frontier", *row]]
    # A cell that took too long, or was skipped, may fit all the same.
    cells = [
        (int(piece.key[-2]), piece)
        for piece in pieces
        if piece.key[0] == "cell" and piece.key[2:-2] == row and piece.status in ("ok", "oom")
    ]
    return frontier_of([*probed, *cells])


def _probe(spec: GridSpec, cell: GridCell, limit_bytes: int | None, left_s: float) -> Outcome:
    limit_s = min(plan_of(spec).time_limit_s, left_s)
    factory: Callable[..., object] = Probe
    with open_process(
        factory, CellWorkload(engine_of(spec, cell.lane), cell, spec.audio, spec.seed), limit_bytes
    ) as process:
        outcome = process.start(limit_s)
        return process.call("run", time_limit_s=limit_s) if outcome.ok else outcome


def _limit_bytes(spec: GridSpec, lane: str) -> int | None:
    """The host memory that a probe may take."""
    asked = plan_of(spec).memory_limit_bytes
    # On a device the host is not what runs out, and CUDA maps more of it than it uses.
    return (
        asked if asked is not None or device_of(spec, lane).startswith("cuda") else ask_machine(free_memory_limit_bytes)
    )
