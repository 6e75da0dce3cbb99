"""Two engines with the same work in every chunk, for `benchmarks/pace.py`: one fits in the core's cache, one does not.

    python benchmarks/pace.py benchmarks/pace_engines.py:Small
    python benchmarks/pace.py benchmarks/pace_engines.py:Large

Both add up a fixed number of bytes. If paces differ only for the large one, its memory left the cache between chunks;
if they differed for both, the pacing itself would be at fault.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import EngineInfo
from stopwav.speech.events import Hypothesis

# Added up per chunk: about 20 ms on one core, as with pocketsphinx.
WORK_BYTES = 192 * 2**20


class Engine:
    """Adds up its memory again and again."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory = np.ones(memory_bytes // 4, np.float32)
        self.info = EngineInfo(name=f"{memory_bytes >> 10} KiB", version="1")

    def open(self) -> Engine:
        """Return itself: a stream has no state."""
        return self

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Do the work and return no text."""
        for _ in range(WORK_BYTES // self._memory.nbytes):
            self._memory.sum()
        return []

    def finish(self) -> list[Hypothesis]:
        """Return an empty text."""
        return [Hypothesis("")]


def Small() -> Engine:
    """256 KiB: inside the second-level cache, which no other core touches."""
    return Engine(2**18)


def Large() -> Engine:
    """64 MiB: as much as an acoustic model, in the cache that the whole host shares."""
    return Engine(2**26)
