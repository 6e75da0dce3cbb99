"""One cell of the grid as a workload: an engine, and a batch of so many utterances of so many seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.rounds import Measurement, Round
from stopwav.measure.workload import Scalar
from stopwav.record import Record
from stopwav.studies.audio_input import make_audio
from stopwav.studies.stored_rounds import RoundPlace, round_from_piece

if TYPE_CHECKING:
    from stopwav.engines.protocol import Engine
    from stopwav.speech.audio import Audio


@dataclass(frozen=True)
class Cell:
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
    """A duration as keys and folders are named by it: every digit, so that it reads back as the same number."""
    return repr(float(duration_s)).removesuffix(".0")


@dataclass(frozen=True)
class CellWorkload:
    """Transcribing one batch: the engine is loaded and the input made before anything is timed."""

    engine: str
    cell: Cell
    audio: str
    seed: int

    @property
    def name(self) -> str:
        """Engine and place."""
        return f"{self.engine} {self.cell}"

    @property
    def params(self) -> Mapping[str, Scalar]:
        """What tells the cells of a grid apart."""
        return {"duration_s": self.cell.duration_s, "batch_size": self.cell.batch_size}

    def setup(self) -> Callable[[], object]:
        """The call that transcribes the batch."""
        from stopwav.engines.protocol import Engine, EngineInfo
        from stopwav.engines.registry import make

        engine = make(self.engine)
        if not isinstance(engine, Engine):
            raise StopwavError(f"engine {self.engine!r} takes no batches (it has no transcribe()); the grid needs one")
        if not isinstance(engine.info, EngineInfo):
            raise StopwavError(f"engine {self.engine!r}: its info is {engine.info!r:.60}, and no EngineInfo")
        one = make_audio(self.audio, self.cell.duration_s, engine.info.sample_rate_hz, self.seed)
        return BatchCall(engine, [_copy(one) for _ in range(self.cell.batch_size)])


class BatchCall:
    """The timed call of a cell: the same audio in every place of the batch, so that its size is all that varies."""

    def __init__(self, engine: Engine, batch: list[Audio]) -> None:
        self._engine, self._batch = engine, batch

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the engine is."""
        return {"engine": self._engine.info.to_json()}

    def __call__(self) -> list[str]:
        """The texts of the batch."""
        texts = self._engine.transcribe(self._batch)
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise StopwavError(f"the engine's transcribe() returned {texts!r:.60}; it returns a list of texts")
        if len(texts) != len(self._batch):
            raise StopwavError(f"the engine returned {len(texts)} texts for a batch of {len(self._batch)}")
        return list(texts)


def _copy(audio: Audio) -> Audio:
    from stopwav.speech.audio import Audio

    return Audio(audio.samples.copy(), audio.sample_rate_hz)


def cell_place(cell: Cell) -> RoundPlace:
    """Where the rounds of a cell stand."""
    return RoundPlace("cell", (exact(cell.duration_s), cell.batch_size))


def measurements(record: Record) -> Iterator[tuple[Cell, Measurement]]:
    """Each cell of which there is a round, with all its rounds, in the order in which they were begun."""
    rounds: dict[Cell, list[Round]] = {}
    for piece in record.pieces:
        if piece.key[0] == "cell":
            rounds.setdefault(Cell(float(piece.key[2]), int(piece.key[3])), []).append(round_from_piece(piece))
    for cell, taken in rounds.items():
        yield cell, Measurement(str(cell), {}, tuple(taken))
