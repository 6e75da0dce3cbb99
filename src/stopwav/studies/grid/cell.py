"""One cell of the grid as a workload, an engine and a batch of utterances of one length, as a worker measures it.

Each worker imports this file, and nothing that only the run needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.float32_products import HeldPrecision, engine_precision
from stopwav.measure.plan import Plan, Scalar
from stopwav.measure.visit import Round, Visitor
from stopwav.studies.audio_input import located, make_audio
from stopwav.studies.fresh_batches import FreshBatches

if TYPE_CHECKING:
    from stopwav.engines.protocol import AudioProcessor, Engine
    from stopwav.speech.audio import Audio


@dataclass(frozen=True)
class GridCell:
    """A place in the grid, of one engine: its lane, which is "" where the run has no other."""

    duration_s: float
    batch_size: int
    lane: str = ""

    @property
    def audio_s(self) -> float:
        """Seconds of audio in the batch."""
        return self.duration_s * self.batch_size

    @property
    def key(self) -> tuple[str | int, ...]:
        """The parts of keys and names of folders that are this cell."""
        return (*([self.lane] if self.lane else []), exact(self.duration_s), self.batch_size)

    def __str__(self) -> str:
        place = f"{self.duration_s:g} s × {self.batch_size}"
        return f"{self.lane} {place}" if self.lane else place


def cell_of(parts: Sequence[str | int]) -> GridCell:
    """Return the cell that these parts of a key are."""
    *lanes, duration_s, size = parts
    return GridCell(float(duration_s), int(size), *map(str, lanes))


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


class CellVisitor:
    """Inside the process: loads the engine at its first visit, and measures a cell at each."""

    def __init__(self, engine: str, audio: str, seed: int, device: str, memory_limit_bytes: int | None) -> None:
        self._name, self._audio, self._seed = engine, located(audio), seed
        self._visitor = Visitor(device, memory_limit_bytes)
        self._engine: Engine | AudioProcessor | None = None
        self._precision = HeldPrecision(engine)
        self._load_s = 0.0

    def visit(self, cell: GridCell, plan: Plan, is_largest: bool, peaks: bool) -> Round:
        """Return a round of the cell; its load time is that of the engine and of its own input."""
        setup: Callable[[], Callable[[], object]] = partial(self._setup, cell)
        visit = partial(self._visitor.visit, setup, plan, is_largest=is_largest, peaks=peaks)
        round_ = visit()
        if self._precision.hold("after a first call"):
            round_ = visit()
            self._precision.check()
        if round_.samples is not None:
            cautions = (*round_.samples.cautions, *self._precision.cautions)
            round_ = replace(round_, samples=replace(round_.samples, cautions=cautions))
        return round_ if round_.opened else replace(round_, load_s=self._load_s + (round_.load_s or 0.0))

    def _setup(self, cell: GridCell) -> Callable[[], object]:
        if self._engine is None:
            start_s = time.perf_counter()
            self._engine = load_engine(self._name)
            self._load_s = time.perf_counter() - start_s
            self._precision = engine_precision(self._name, self._engine.info.precision)
            self._precision.hold("after the engine was loaded")
        return cell_call(self._engine, cell, self._audio, self._seed)
