"""One cell of the grid as a workload: an engine, and a batch of so many utterances of so many seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.plan import Scalar

if TYPE_CHECKING:
    from stopwav.engines.protocol import Engine
    from stopwav.speech.audio import Audio

BUNDLED = "bundled"
NOISE = "noise"
# A tenth of full scale: about as loud as speech in the corpora, and clipped once in 10²³ samples.
NOISE_LEVEL = 0.1


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


def make_audio(source: str, duration_s: float, sample_rate_hz: int, seed: int) -> Audio:
    """So many seconds of noise, or of bundled speech or a file: cut where they are longer, repeated where shorter."""
    import numpy as np

    from stopwav.speech.audio import Audio

    count = round(duration_s * sample_rate_hz)
    if count < 1:
        raise StopwavError(f"a duration of {duration_s:g} s has no sample at {sample_rate_hz} Hz; ask for more")
    if source == NOISE:
        samples = np.random.default_rng(seed).normal(0, NOISE_LEVEL, count).astype(np.float32)
    else:
        samples = np.resize(_speech(source, sample_rate_hz, duration_s), count)
    return Audio(np.clip(samples, -1.0, 1.0), sample_rate_hz)


def audio_digest(source: str, seed: int) -> str:
    """16 hex digits that change with the audio a run is fed with."""
    if source == NOISE:
        return hashlib.sha256(f"noise {seed}".encode()).hexdigest()[:16]
    if source == BUNDLED:
        from stopwav.speech.corpus import bundled_corpus

        return bundled_corpus().digest
    from stopwav.speech.audio import load

    load(source, 16_000)  # whatever is wrong with the file is said before anything is measured
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]


def _speech(source: str, sample_rate_hz: int, duration_s: float) -> Any:
    """The samples of a file, or as many utterances of the bundled corpus in a row as the duration takes."""
    import numpy as np

    from stopwav.speech.audio import load
    from stopwav.speech.corpus import bundled_corpus

    if source != BUNDLED:
        return load(source, sample_rate_hz).samples
    parts: list[Any] = []
    for utterance in bundled_corpus().utterances:
        parts.append(load(utterance.path, sample_rate_hz).samples)
        if sum(map(len, parts)) >= duration_s * sample_rate_hz:
            break
    return np.concatenate(parts)


def _copy(audio: Audio) -> Audio:
    from stopwav.speech.audio import Audio

    return Audio(audio.samples.copy(), audio.sample_rate_hz)
