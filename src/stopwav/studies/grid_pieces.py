"""The pieces of a grid run: how a round of a cell is written to the run file and read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from stopwav.errors import Caution
from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak
from stopwav.measure.rounds import Measurement, Round
from stopwav.measure.sampler import Samples
from stopwav.record import Piece, Record
from stopwav.studies.grid_cell import Cell, exact

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class RoundPlace:
    """Where the rounds of one workload stand in a run file."""

    kind: str
    parts: tuple[str | int, ...]

    def key(self, index: int, attempt: int) -> Key:
        """The key of a round; `attempt` is 1 for what was taken once more."""
        return (self.kind, index, *self.parts, attempt)

    def rounds(self, record: Record) -> list[Round]:
        """The rounds that are there."""
        pieces = (piece for piece in record.pieces if piece.key[0] == self.kind)
        return [round_from_piece(piece) for piece in pieces if tuple(piece.key[2:-1]) == self.parts]


def cell_place(cell: Cell) -> RoundPlace:
    """Where the rounds of a cell stand."""
    return RoundPlace("cell", (exact(cell.duration_s), cell.batch_size))


def round_to_piece(key: Key, one: Round) -> Piece:
    """The round as it is stored."""
    data: dict[str, Any] = {}
    if one.samples is not None:
        data = {
            "load_s": one.load_s,
            "samples": {**asdict(one.samples), "cautions": [[c.code, c.message] for c in one.samples.cautions]},
            "memory": asdict(one.memory) if one.memory else None,
            "cuda_memory": asdict(one.cuda_memory) if one.cuda_memory else None,
            "throttled": one.throttled,
            **one.facts,
        }
    return Piece(key=list(key), status=one.status, message=one.message, last_words=one.last_words, data=data)


def round_from_piece(piece: Piece) -> Round:
    """The round that a piece holds."""
    index, data = int(piece.key[1]), piece.data
    if "samples" not in data:
        return Round(index, piece.status, piece.message, piece.last_words)
    return Round(
        index,
        piece.status,
        load_s=data["load_s"],
        samples=_samples(data["samples"]),
        memory=HostPeak(**data["memory"]) if data["memory"] else None,
        cuda_memory=_cuda_peak(data["cuda_memory"]) if data["cuda_memory"] else None,
        throttled=data["throttled"],
        facts={"engine": data["engine"]},
    )


def measurements(record: Record) -> Iterator[tuple[Cell, Measurement]]:
    """Each cell of which there is a round, with all its rounds, in the order in which they were begun."""
    rounds: dict[Cell, list[Round]] = {}
    for piece in record.pieces:
        if piece.key[0] == "cell":
            rounds.setdefault(Cell(float(piece.key[2]), int(piece.key[3])), []).append(round_from_piece(piece))
    for cell, taken in rounds.items():
        yield cell, Measurement(str(cell), {}, tuple(taken))


def _samples(fields: dict[str, Any]) -> Samples:
    lists = {name: tuple(fields[name]) for name in ("warmup_s", "values_s", "device_values_s", "stages_s")}
    cautions = tuple(Caution(*caution) for caution in fields["cautions"])
    return Samples(first_s=fields["first_s"], loops=fields["loops"], cautions=cautions, **lists)


def _cuda_peak(fields: dict[str, Any]) -> CudaPeak:
    return CudaPeak(CudaMemory(**fields["peak"]), CudaMemory(**fields["baseline"]), fields["device_method"])
