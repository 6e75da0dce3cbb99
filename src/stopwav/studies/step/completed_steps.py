"""The steps of a run that completed: their clean and profiled times, as the run file has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stopwav.measure.module_rows import INSTRUMENT
from stopwav.piece import Piece
from stopwav.record import Record

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class CompletedSteps:
    """The steps of a run that completed, in order: their batches, clean and profiled times, and rounds."""

    pieces: list[Piece]
    # Whether rows are by the device's clock; else by the wall's.
    by_device: bool

    @cached_property
    def rounds(self) -> list[int]:
        """The round of each step."""
        return [int(piece.key[1]) for piece in self.pieces]

    @cached_property
    def numbers(self) -> list[int]:
        """The number of each step in its round."""
        return [int(piece.key[2]) for piece in self.pieces]

    def clean(self, clock: str = "wall_s") -> Seconds:
        """Return the times of the clean steps."""
        return np.array([piece.data["clean"][clock] for piece in self.pieces], dtype=float)

    def profiled(self) -> Seconds:
        """Return the wall times of the profiled steps, the instrument's own time included."""
        return np.array([piece.data["watched"]["wall_s"] for piece in self.pieces], dtype=float)

    def phase(self, name: str, clock: int) -> Seconds:
        """Return the time of a phase in the clean steps: by the wall (0) or by the device (1)."""
        return np.array([piece.data["clean"]["phases"][name][clock] for piece in self.pieces], dtype=float)

    @cached_property
    def whole(self) -> Seconds:
        """The profiled steps without the instrument's own time: what shares are shares of."""
        return self.summed_parts(lambda row: row != INSTRUMENT)

    def summed_parts(self, counts: Callable[[str], bool]) -> Seconds:
        """Return the seconds of each profiled step in the rows that count."""
        column = 3 if self.by_device else 2
        parts = [piece.data["watched"]["parts"] for piece in self.pieces]
        return np.array([sum(part[column] for part in of_step if counts(part[0])) for of_step in parts])

    @cached_property
    def recomputed(self) -> frozenset[str]:
        """The rows that a checkpoint recomputed."""
        return frozenset(row for piece in self.pieces for row in piece.data["watched"]["recomputed"])


def completed_steps(record: Record, rank: int = 0) -> CompletedSteps:
    """Return the steps of a run that completed, of the first process or of another one."""
    start = ["rank", rank] if rank else []
    pieces = [
        piece for piece in record.pieces if piece.status == "ok" and piece.key[: len(start) + 1] == [*start, "step"]
    ]
    pieces = [
        Piece(piece.key[len(start) :], piece.status, piece.message, piece.last_words, piece.data) for piece in pieces
    ]
    by_device = bool(pieces) and pieces[0].data["watched"]["device_s"] is not None
    return CompletedSteps(pieces, by_device)


def full_rounds(steps: CompletedSteps) -> CompletedSteps:
    """Return the steps of those rounds that have as many as any: a round that was stopped has other batches."""
    count = max((steps.rounds.count(index) for index in set(steps.rounds)), default=0)
    kept = [piece for piece in steps.pieces if steps.rounds.count(int(piece.key[1])) == count]
    return CompletedSteps(kept, steps.by_device)
