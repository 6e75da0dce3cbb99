"""The pieces of a grid run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import Record
from stopwav.studies.frontier import next_batch
from stopwav.studies.grid.cell import cell_place, cells_of, exact, is_skipped
from stopwav.studies.grid.frontier import grid_frontier
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.piece_kinds import ANY_COUNT, ATTEMPTS, AnyText, Key, PieceKind
from stopwav.studies.stored_fields import Count, StoredFields, stored_spec
from stopwav.studies.stored_rounds import StoredRound, missing_rounds


class StoredTrace(StoredFields):
    """The trace of a cell: its file, and how many operators of PyTorch it holds."""

    file: str
    operators: Count


def grid_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(GridSpec, record.header)
    durations, sizes = frozenset(map(exact, spec.durations)), frozenset(spec.batch_sizes)
    return [
        PieceKind("cell", (range(spec.rounds), durations, sizes, ATTEMPTS), StoredRound),
        PieceKind("frontier", (durations, ANY_COUNT)),
        PieceKind("trace", (durations, sizes), StoredTrace),
        # What such a trace holds besides, where that is not the usual.
        PieceKind("trace", (durations, sizes, AnyText()), StoredTrace),
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield the rounds of cells that the run lacks, and the next probe of a frontier that is not found yet."""
    spec = stored_spec(GridSpec, record.header)
    for index in range(spec.rounds):
        for cell in cells_of(spec):
            if not is_skipped(spec, cell):
                yield from missing_rounds(record, cell_place(cell), index)
    for duration_s in spec.durations if spec.frontier else ():
        size = next_batch(grid_frontier(record, duration_s), spec.batch_sizes[0])
        if size is not None:
            yield ("frontier", exact(duration_s), size)
