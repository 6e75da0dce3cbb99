"""Moonshine, slower by a known share: an engine to check that a comparison finds a difference of that size."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns

from stopwav.engines.fake import spin
from stopwav.engines.moonshine import Moonshine
from stopwav.speech.audio import Audio


class SlowerMoonshine:
    """Transcribes as Moonshine does, and is then busy for `delay` times as long as that took."""

    def __init__(self, delay: float = 0.1) -> None:
        self._engine, self._delay = Moonshine(), delay
        self.info = self._engine.info

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the texts of Moonshine, later."""
        begin_ns = perf_counter_ns()
        texts = self._engine.transcribe(batch)
        # Spinning, as a sleep would let the processor rest.
        spin(self._delay * (perf_counter_ns() - begin_ns) / 1e9)
        return texts
