"""A streaming engine of your own: `stopwav latency examples/my_engine.py:MyEngine,beam=1e-30`.

Nothing is inherited: a class with `info` and `open()` is a streaming engine. This one wraps PocketSphinx; put your
recogniser in its place.
"""

import contextlib

import numpy as np
from numpy.typing import NDArray
from pocketsphinx import Decoder

from stopwav import EngineInfo, Hypothesis, stage


class MyEngine:
    """Made once per process; what that takes is the load time. Options of the command line are its arguments."""

    def __init__(self, beam: float = 1e-48) -> None:
        self.info = EngineInfo(name="my engine", version="1", sample_rate_hz=16_000, chunk_s=0.16)
        self._decoder = Decoder(loglevel="FATAL", beam=beam)

    def open(self) -> "MySession":
        """A new stream, which must not remember the one before, nor mind that it broke off."""
        with contextlib.suppress(RuntimeError):  # raised where there is none to end
            self._decoder.end_utt()
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        return MySession(self._decoder)


class MySession:
    """One stream."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """The whole text so far, after one more chunk: mono samples in [-1, 1] at `info.sample_rate_hz`."""
        with stage("copy"):
            pcm = (samples * 32767).astype(np.int16).tobytes()
        with stage("inference"):
            self._decoder.process_raw(pcm, full_utt=False)
        return self._text()

    def finish(self) -> list[Hypothesis]:
        """The final text: there is no more audio."""
        with stage("inference"):
            self._decoder.end_utt()
        return self._text()

    def _text(self) -> list[Hypothesis]:
        with stage("post"):
            best = self._decoder.hyp()
        return [Hypothesis(best.hypstr)] if best else []
