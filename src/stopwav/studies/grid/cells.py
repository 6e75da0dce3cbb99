"""All cells of a grid: which there are, in which order they are measured, and where they stand in the run file."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stopwav.measure.rounds import Measurement, Round, alternating_order
from stopwav.record import Record
from stopwav.studies.grid.cell import GridCell, cell_of
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.piece_kinds import Key
from stopwav.studies.stored_rounds import RoundPlace, round_from_piece


def cells_of(spec: GridSpec) -> list[GridCell]:
    """Return every cell of the grid, those that are skipped included: engine by engine, row by row."""
    return [
        GridCell(duration_s, size, lane)
        for lane in spec.lanes
        for duration_s in spec.durations
        for size in spec.batch_sizes
    ]


def is_skipped(spec: GridSpec, cell: GridCell) -> bool:
    """Return whether `triangle` leaves the cell out, by the rule of SpeechBrain's `triangle_only`.

    With places counted from 0, a cell is left out where row + column ≥ (rows + columns) / 2, but never in the first
    row or the first column.
    """
    row, column = spec.durations.index(cell.duration_s), spec.batch_sizes.index(cell.batch_size)
    heavy = row + column >= (len(spec.durations) + len(spec.batch_sizes)) / 2
    return spec.triangle and heavy and row > 0 and column > 0


def asked_cells(spec: GridSpec) -> list[GridCell]:
    """Return the cells that are to be measured, row by row."""
    return [cell for cell in cells_of(spec) if not is_skipped(spec, cell)]


def rising_cells(spec: GridSpec) -> list[GridCell]:
    """Return the cells that are to be measured, engine by engine, in the order of their audio: of their cost."""
    lanes = spec.lanes
    return sorted(asked_cells(spec), key=lambda cell: (lanes.index(cell.lane), cell.audio_s, cell.duration_s))


def drawn_order(cells: Iterable[GridCell], lanes: Sequence[str], seed: int, index: int) -> list[GridCell]:
    """Return cells in the order of a round, drawn by the seed: a drift meanwhile is no trend along an axis then.

    Engines come one after the other, as one at a time is loaded, and backwards in every other round.
    """
    order = list(cells)
    random.Random(f"{seed} {index}").shuffle(order)
    return by_lane(order, lanes, index)


def by_lane(cells: Iterable[GridCell], lanes: Sequence[str], index: int) -> list[GridCell]:
    """Return cells engine by engine, in the order of the engines in that round, else in the order given."""
    turns = {lanes[position]: turn for turn, position in enumerate(alternating_order(len(lanes), index))}
    return sorted(cells, key=lambda cell: turns[cell.lane])


def round_order(spec: GridSpec, index: int) -> list[GridCell]:
    """Return the cells of one round of a fixed plan, in its order."""
    return drawn_order(asked_cells(spec), spec.lanes, spec.seed, index)


def result_name(spec: GridSpec, cell: GridCell) -> str:
    """Return what results call a cell: its engine and its place."""
    return f"{spec.name(cell.lane)} {replace(cell, lane='')}"


def own_key(cell: GridCell) -> Key:
    """Return the key of the pass in which a cell has a process of its own, for its first call and its memory."""
    return ("own", 0, *cell.key)


def cell_place(cell: GridCell) -> RoundPlace:
    """Return where the rounds of a cell stand in the run file."""
    return RoundPlace("cell", cell.key)


def measurements(record: Record) -> Iterator[tuple[GridCell, Measurement]]:
    """Yield each cell that has a round, with all its rounds, in the order in which they were started."""
    rounds: dict[GridCell, list[Round]] = {}
    for piece in record.pieces:
        if piece.key[0] == "cell":
            rounds.setdefault(cell_of(piece.key[2:-1]), []).append(round_from_piece(piece))
    for cell, stored in rounds.items():
        yield cell, Measurement(str(cell), {}, tuple(stored))


def own_rounds(record: Record, cell: GridCell) -> list[Round]:
    """Return the pass of a cell in a process of its own, where there was one and it completed."""
    piece = record.find(own_key(cell))
    return [round_from_piece(piece)] if piece is not None and piece.status == "ok" else []


def opened_rounds(record: Record, cell: GridCell, measured: Measurement) -> list[Round]:
    """Return the rounds of a cell whose process had done nothing before, that of its own pass included."""
    return [*(round_ for round_ in measured.good if round_.opened), *own_rounds(record, cell)]


def lacking_own(record: Record, cells: Iterable[GridCell]) -> list[GridCell]:
    """Return the cells that were measured, but never by a process that had done nothing before."""
    measured = dict(measurements(record))
    return [
        cell
        for cell in cells
        if cell in measured
        and measured[cell].good
        and own_key(cell) not in record
        and not opened_rounds(record, cell, measured[cell])
    ]
