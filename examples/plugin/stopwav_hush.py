"""Hush: takes all audio and writes nothing. Its cost is the lower limit for every other engine."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stopwav import Audio, EngineInfo, Hypothesis


class Hush:
    """An engine that streams (`open`) and also takes whole utterances (`transcribe`)."""

    info = EngineInfo(name="hush", version="1.0", notes=("writes nothing, on purpose",))

    def open(self) -> "HushSession":
        """Return a new stream."""
        return HushSession()

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return an empty text for each utterance."""
        return ["" for _ in batch]


class HushSession:
    """One stream."""

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return no text: an empty list means that nothing changed."""
        return []

    def finish(self) -> list[Hypothesis]:
        """Return an empty final text."""
        return [Hypothesis("")]
