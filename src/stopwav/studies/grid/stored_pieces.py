"""The pieces of a grid run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import Record
from stopwav.studies.budget import FEWEST_ROUNDS, SPENT_KIND, planned_rounds, possible_rounds
from stopwav.studies.frontier import next_batch
from stopwav.studies.grid.cell import GridCell, cell_of, exact
from stopwav.studies.grid.cells import asked_cells, cell_place, lacking_own, own_key
from stopwav.studies.grid.frontier import grid_frontier
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.piece_kinds import ANY_COUNT, ATTEMPTS, AnyText, Key, PieceKind
from stopwav.studies.stored_fields import Count, Seconds, StoredFields, stored_spec
from stopwav.studies.stored_rounds import StoredRound, missing_rounds


class StoredTrace(StoredFields):
    """The trace of a cell: its file, and how many operators of PyTorch it holds."""

    file: str
    operators: Count


class StoredLeftOut(StoredFields):
    """A cell that the budget had no time for, and the seconds that a call of it takes."""

    call_s: Seconds


def grid_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(GridSpec, record.header)
    lanes = (frozenset(spec.lanes),) if len(spec.engines) > 1 else ()
    row = (*lanes, frozenset(map(exact, spec.durations)))
    cell = (*row, frozenset(spec.batch_sizes))
    return [
        PieceKind("cell", (possible_rounds(spec.rounds), *cell, ATTEMPTS), StoredRound),
        # A call in a process of its own, for the first call and the memory of a cell.
        PieceKind("own", (range(1), *cell), StoredRound),
        PieceKind("left-out", (*cell, ANY_COUNT), StoredLeftOut),
        SPENT_KIND,
        PieceKind("frontier", (*row, ANY_COUNT)),
        PieceKind("trace", cell, StoredTrace),
        # What such a trace holds besides, where that is not the usual.
        PieceKind("trace", (*cell, AnyText()), StoredTrace),
    ]


def has_own_passes(spec: GridSpec) -> bool:
    """Return whether a fixed plan takes first calls and memory in processes of their own: where it is for a report.

    With fewer rounds a result is wanted quickly, and loading the engine once more for each cell may take longest.
    """
    return len(planned_rounds(spec.rounds)) >= FEWEST_ROUNDS


def left_out_s(record: Record) -> dict[GridCell, float]:
    """Return the cells that the budget had no time for, and the seconds of a call as it was predicted last."""
    keys = [key for key in record.keys if key[0] == "left-out"]
    pieces = [piece for key in keys if (piece := record.find(key)) is not None]
    return {cell_of(piece.key[1:-1]): float(piece.data["call_s"]) for piece in pieces}


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield the rounds of cells that the run lacks, and the next probe of a frontier that is not found yet.

    Of a budget only the first sweep is planned, and a cell that it had no time for is not missing.
    """
    spec = stored_spec(GridSpec, record.header)
    left_out = left_out_s(record) if spec.is_budgeted else {}
    for index in planned_rounds(spec.rounds):
        for cell in asked_cells(spec):
            if cell not in left_out:
                yield from missing_rounds(record, cell_place(cell), index)
    if spec.is_budgeted:
        return
    if has_own_passes(spec):
        yield from map(own_key, lacking_own(record, asked_cells(spec)))
    for lane, duration_s in searched_rows(spec):
        size = next_batch(grid_frontier(record, lane, duration_s), spec.batch_sizes[0])
        if size is not None:
            yield ("frontier", *GridCell(duration_s, size, lane).key)


def searched_rows(spec: GridSpec) -> list[tuple[str, float]]:
    """Return the rows of each engine whose largest batch is searched."""
    return [(lane, duration_s) for lane in spec.lanes for duration_s in spec.durations] if spec.frontier else []
