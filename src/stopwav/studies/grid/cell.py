"""One cell of the grid as a workload: an engine and a batch of utterances of one length; and all cells of a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.plan import Scalar
from stopwav.measure.rounds import Measurement, Round
from stopwav.record import Record
from stopwav.studies.audio_input import located, make_audio
from stopwav.studies.fresh_batches import FreshBatches
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.piece_kinds import Key
from stopwav.studies.stored_rounds import RoundPlace, round_from_piece

if TYPE_CHECKING:
    from stopwav.engines.protocol import AudioProcessor, Engine
    from stopwav.speech.audio import Audio


@dataclass(frozen=True)
class GridCell:
    """A place in the grid."""

    duration_s: float
    batch_size: int

    @property
    def audio_s(self) -> float:
        """Seconds of audio in the batch."""
        return self.duration_s * self.batch_size

    def __str__(self) -> str:
        return f"{self.duration_s:g} s × {self.batch_size}"


def exact(duration_s: float) -> str:
    """Return a duration as keys and folders are named by it: every digit, so that it reads back as the same number."""
    return repr(float(duration_s)).removesuffix(".0")


@dataclass(frozen=True)
class CellWorkload:
    """Transcribing one batch: the engine is loaded and the input made before anything is timed."""

    engine: str
    cell: GridCell
    audio: str
    seed: int

    @property
    def name(self) -> str:
        """Engine and place."""
        return f"{self.engine} {self.cell}"

    @property
    def params(self) -> Mapping[str, Scalar]:
        """The place of the cell."""
        return {"duration_s": self.cell.duration_s, "batch_size": self.cell.batch_size}

    def setup(self) -> Callable[[], object]:
        """Return the call that transcribes the batch, or processes it where the engine gives no text."""
        source = located(self.audio)  # before the engine, which may change the folder
        return cell_call(load_engine(self.engine), self.cell, source, self.seed)


def load_engine(name: str) -> Engine | AudioProcessor:
    """Return an engine that takes batches."""
    from stopwav.engines.protocol import AudioProcessor, Engine
    from stopwav.engines.registry import make

    engine = make(name)
    if not isinstance(engine, Engine | AudioProcessor):
        missing = "it has neither transcribe() nor process()"
        raise StopwavError(f"engine {name!r} takes no batches ({missing}); the grid needs one")
    return engine


def cell_call(engine: Engine | AudioProcessor, cell: GridCell, audio: str, seed: int) -> BatchCall:
    """Return the call of a cell, with its input."""
    samples = make_audio(audio, cell.duration_s, engine.info.sample_rate_hz, seed)
    return BatchCall(engine, samples, cell.batch_size)


class BatchCall:
    """The timed call of a cell: the same audio in every place of the batch, so that its size is all that varies."""

    def __init__(self, engine: Engine | AudioProcessor, audio: Audio, size: int) -> None:
        self._engine, self._size = engine, size
        self._batches = FreshBatches(audio, size)
        # The audio, and the batch that lies ready.
        self.input_bytes = audio.samples.nbytes * (size + 1)
        # What a trace calls it.
        self.stage = "transcribe" if hasattr(engine, "transcribe") else "process"
        self._method: Callable[[list[Audio]], object] = getattr(engine, self.stage)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The engine's info."""
        return {"engine": self._engine.info.to_json()}

    def prepare_calls(self, count: int) -> int:
        """Make the batches of the next calls, and return of how many."""
        return self._batches.prepare(count)

    def __call__(self) -> object:
        """Return the texts of the batch, or whatever a model without texts returns."""
        result = self._method(self._batches.take())
        if self.stage == "transcribe":
            self._check(result)
        return result

    def _check(self, texts: object) -> None:
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise StopwavError(f"the engine's transcribe() returned {texts!r:.60}; it has to return a list of texts")
        if len(texts) != self._size:
            raise StopwavError(f"the engine returned {len(texts)} texts for a batch of {self._size}")


def cells_of(spec: GridSpec) -> list[GridCell]:
    """Return every cell of the grid, those that are skipped included, row by row."""
    return [GridCell(duration_s, size) for duration_s in spec.durations for size in spec.batch_sizes]


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
    """Return the cells that are to be measured, in the order of their audio: of what a call of them costs."""
    return sorted(asked_cells(spec), key=lambda cell: (cell.audio_s, cell.duration_s))


def drawn_order(cells: Iterable[GridCell], seed: int, index: int) -> list[GridCell]:
    """Return cells in the order of a round, drawn by the seed: a drift meanwhile is no trend along an axis then."""
    order = list(cells)
    random.Random(f"{seed} {index}").shuffle(order)
    return order


def round_order(spec: GridSpec, index: int) -> list[GridCell]:
    """Return the cells of one round of a fixed plan, in its order."""
    return drawn_order(asked_cells(spec), spec.seed, index)


def own_key(cell: GridCell) -> Key:
    """Return the key of the pass in which a cell has a process of its own, for its first call and its memory."""
    return ("own", 0, exact(cell.duration_s), cell.batch_size)


def cell_place(cell: GridCell) -> RoundPlace:
    """Return where the rounds of a cell stand in the run file."""
    return RoundPlace("cell", (exact(cell.duration_s), cell.batch_size))


def measurements(record: Record) -> Iterator[tuple[GridCell, Measurement]]:
    """Yield each cell that has a round, with all its rounds, in the order in which they were started."""
    rounds: dict[GridCell, list[Round]] = {}
    for piece in record.pieces:
        if piece.key[0] == "cell":
            rounds.setdefault(GridCell(float(piece.key[2]), int(piece.key[3])), []).append(round_from_piece(piece))
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
