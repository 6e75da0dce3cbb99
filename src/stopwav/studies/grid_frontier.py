"""The frontier of a grid: for a duration, the largest batch that fits, found by doubling and then by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stopwav.measure.memory import limit_host_memory
from stopwav.measure.plan import Workload
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.record import Piece, Record
from stopwav.studies.grid import GridSpec, device_of, engine_of, plan_of
from stopwav.studies.grid_cell import Cell, CellWorkload, exact

# An engine that takes one utterance after the other never runs out of memory: beyond this the search stops and says so.
LARGEST_BATCH = 4096
# Without a limit of the user's, a probe may take this share of the host's free memory: the machine has to live on.
FREE_SHARE = 0.9


@dataclass(frozen=True)
class Frontier:
    """Where the search for a duration stands: the largest batch that fitted, and the smallest that did not, and why.

    `fits` is 0 where not even one utterance did. Without `fails_at`, nothing failed up to `fits`.
    """

    duration_s: float
    fits: int
    fails_at: int | None = None
    failure: str = ""


class Probe:
    """Inside its fresh process: whether a batch goes through once."""

    def __init__(self, workload: Workload, limit_bytes: int | None) -> None:
        self._workload = workload
        if limit_bytes is not None:
            limit_host_memory(limit_bytes)

    def run(self) -> None:
        """Nothing; whatever goes wrong is the answer."""
        self._workload.setup()()


def find_frontier(spec: GridSpec, record: Record, duration_s: float) -> None:
    """Probe batches of a duration until the largest that fits is known; each probe is recorded at once."""
    limit_bytes = _limit_bytes(spec)
    while (size := next_batch(frontier_of(record, duration_s), spec.batch_sizes[0])) is not None:
        outcome = _probe(spec, Cell(duration_s, size), limit_bytes)
        record.append(
            Piece(
                key=["frontier", exact(duration_s), size],
                status=outcome.status,
                message=outcome.message,
                last_words=outcome.last_words,
                data={"memory_limit_bytes": limit_bytes},
            )
        )


def frontier_of(record: Record, duration_s: float) -> Frontier:
    """What the recorded probes of a duration say, and those of its cells that were measured or ran out of memory."""
    tried = [
        (int(piece.key[2] if piece.key[0] == "frontier" else piece.key[3]), piece)
        for piece in record.pieces
        if piece.key[:2] == ["frontier", exact(duration_s)]
        # A cell that took too long, or was skipped, may fit all the same.
        or (piece.key[0] == "cell" and piece.key[2] == exact(duration_s) and piece.status in ("ok", "oom"))
    ]
    fits = max((size for size, piece in tried if piece.status == "ok"), default=0)
    failed = [(size, f"{piece.status}: {piece.message}") for size, piece in tried if piece.status != "ok"]
    # What failed by chance below a batch that went through is no frontier.
    return Frontier(duration_s, fits, *min((one for one in failed if one[0] > fits), default=(None, "")))


def next_batch(found: Frontier, first: int = 1) -> int | None:
    """The batch to try next: twice the largest that fitted, or halfway to the smallest that failed; None at the end."""
    if found.fails_at is None:
        if found.fits >= LARGEST_BATCH:
            return None
        return min(LARGEST_BATCH, 2 * found.fits) if found.fits else first
    return (found.fits + found.fails_at) // 2 if found.fails_at - found.fits > 1 else None


def _probe(spec: GridSpec, cell: Cell, limit_bytes: int | None) -> Outcome:
    limit_s = plan_of(spec).time_limit_s
    factory: Callable[..., object] = Probe
    with FreshProcess(factory, CellWorkload(engine_of(spec), cell, spec.audio, spec.seed), limit_bytes) as process:
        outcome = process.start(limit_s)
        return process.call("run", time_limit_s=limit_s) if outcome.ok else outcome


def _limit_bytes(spec: GridSpec) -> int | None:
    """The host memory that a probe may take."""
    import sys

    import psutil

    asked = plan_of(spec).memory_limit_bytes
    # On a device the host is not what runs out, and CUDA maps more of it than it uses.
    if asked is not None or sys.platform != "linux" or device_of(spec).startswith("cuda"):
        return asked
    return int(FREE_SHARE * psutil.virtual_memory().available)
