"""CMU PocketSphinx: a small hidden-Markov-model recogniser; its package includes the English model."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import EngineInfo
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

# The rate that the packaged acoustic model was trained on.
SAMPLE_RATE_HZ = 16_000


class PocketSphinx:
    """PocketSphinx with its packaged US English model. Partials are revised as audio arrives."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        self._decoder = Decoder(loglevel="FATAL")
        self.info = EngineInfo(
            name="pocketsphinx",
            version=version("pocketsphinx"),
            sample_rate_hz=SAMPLE_RATE_HZ,
            model="en-us (in the package)",
            language="en",
            precision="int16 audio, fixed-point scores",
        )

    def open(self) -> PocketSphinxSession:
        """Return a new stream."""
        self._begin()
        return PocketSphinxSession(self._decoder)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; they are decoded whole, one after the other."""
        return [self._transcribe(audio) for audio in batch]

    def _transcribe(self, audio: Audio) -> str:
        self._begin()
        self._decoder.process_raw(audio.pcm16().tobytes(), full_utt=True)
        self._decoder.end_utt()
        return _text(self._decoder)

    def _begin(self) -> None:
        with contextlib.suppress(RuntimeError):  # raised if no stream is open
            self._decoder.end_utt()
        # The running cepstral mean carries over from utterance to utterance: without a reset the text of a stream would
        # depend on the streams before it.
        self._decoder.reinit_feat()
        self._decoder.start_utt()


class PocketSphinxSession:
    """One stream through the decoder."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._shown = ""

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the partial text if it changed."""
        with stage("features"):
            pcm = Audio(samples, SAMPLE_RATE_HZ).pcm16().tobytes()
            # Only features for all but the last sample; the call with that one then searches everything buffered. The
            # text is exactly that of a single call (tested), and the two parts can be timed separately.
            if len(samples) > 1:
                self._decoder.process_raw(pcm[:-2], no_search=True, full_utt=False)
        with stage("inference"):
            self._decoder.process_raw(pcm[-2:], full_utt=False)
        return self._changed_text()

    def finish(self) -> list[Hypothesis]:
        """Return the final text, after a second pass over the whole utterance."""
        with stage("inference"):
            self._decoder.end_utt()
        return self._changed_text()

    def _changed_text(self) -> list[Hypothesis]:
        with stage("post"):
            text = _text(self._decoder)
        if text == self._shown:
            return []
        self._shown = text
        return [Hypothesis(text)]


def _text(decoder: Any) -> str:
    hypothesis = decoder.hyp()
    return hypothesis.hypstr if hypothesis else ""
