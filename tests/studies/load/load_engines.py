"""Engines for load: one that says the words of the tiny corpus, and some that leak, fail or take no chunks."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stopwav import EngineInfo, Hypothesis
from stopwav.speech.audio import Audio

RATE_HZ = 16_000
# In each chunk of 100 ms.
LEAK_BYTES = 200_000


class Speaks:
    """Says "red" with the first chunk and "red fox" at the end, whatever it hears."""

    def __init__(self) -> None:
        self.info = EngineInfo(name="speaks", version="1", sample_rate_hz=RATE_HZ)

    def open(self) -> Session:
        return Session()


class Session:
    """A stream: its chunks are counted."""

    def __init__(self) -> None:
        self.chunks = 0

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        self.chunks += 1
        return [Hypothesis("red")]

    def finish(self) -> list[Hypothesis]:
        return [Hypothesis("red fox")]


class Leaks(Speaks):
    """Keeps some memory with every chunk, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bytes] = []

    def open(self) -> Session:
        return _LeakingSession(self.kept)


class _LeakingSession(Session):
    def __init__(self, kept: list[bytes]) -> None:
        super().__init__()
        self.kept = kept

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        self.kept.append(os.urandom(LEAK_BYTES))
        return super().push(samples)


class ThirdChunk(Speaks):
    """Fails with the third chunk of every stream."""

    def open(self) -> Session:
        return _FailingSession()


class _FailingSession(Session):
    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        if self.chunks == 2:
            raise RuntimeError("no third chunk")
        return super().push(samples)


class Whole:
    """An offline engine."""

    def __init__(self) -> None:
        self.info = EngineInfo(name="whole", version="1", sample_rate_hz=RATE_HZ)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        return ["red fox"] * len(batch)
