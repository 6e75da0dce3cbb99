"""Vosk: Kaldi recognisers for small machines; a model is an unpacked folder from the toolkit's list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.toolkit import model_folder, model_name, toolkit_error
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

NAME = "vosk"
# The rate of all the toolkit's models except the few for telephones; it resamples any other itself.
SAMPLE_RATE_HZ = 16_000
# Errors only: by default the toolkit logs to stderr what it loads.
LOG_LEVEL = -1


class Vosk:
    """The engine `vosk:FOLDER_OR_ID`."""

    def __init__(self, source: str | None = None) -> None:
        folder = model_folder(NAME, source)
        from vosk import Model, SetLogLevel

        SetLogLevel(LOG_LEVEL)
        try:
            self._model = Model(model_path=str(folder))
        except Exception as error:
            raise toolkit_error(NAME, error, f"{folder} must contain a model: am, conf and graph") from error
        self.info = EngineInfo(
            name=NAME,
            version=version("vosk"),
            sample_rate_hz=SAMPLE_RATE_HZ,
            model=model_name(source, folder),
            precision="int16 audio, float32 scores",
        )

    def open(self) -> VoskSession:
        """Return a new stream."""
        from vosk import KaldiRecognizer

        return VoskSession(KaldiRecognizer(self._model, SAMPLE_RATE_HZ))

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance, one after the other: the toolkit has batches only on GPUs."""
        return [self._transcribe(audio) for audio in batch]

    def _transcribe(self, audio: Audio) -> str:
        session = self.open()
        hypotheses = [*session.push(audio.samples), *session.finish()]
        return hypotheses[-1].text if hypotheses else ""


class VoskSession:
    """One stream: the toolkit closes a sentence at a pause and begins a new one; the text is all of them joined."""

    def __init__(self, recogniser: Any) -> None:
        self._recogniser = recogniser
        self._closed: list[str] = []
        self._shown = ""

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the text if this audio changed it."""
        with stage("copy"):
            pcm = Audio(samples, SAMPLE_RATE_HZ).pcm16().tobytes()
        with stage("inference"):
            at_pause = bool(self._recogniser.AcceptWaveform(pcm))
            answer = self._recogniser.Result() if at_pause else self._recogniser.PartialResult()
        with stage("post"):
            sentence = json.loads(answer)["text" if at_pause else "partial"]
        return self._changed_text(sentence, closed=at_pause, endpoint=at_pause and bool(sentence))

    def finish(self) -> list[Hypothesis]:
        """Return the final text if the end changed it."""
        with stage("inference"):
            answer = self._recogniser.FinalResult()
        with stage("post"):
            sentence = json.loads(answer)["text"]
        return self._changed_text(sentence, closed=True)

    def _changed_text(self, sentence: str, closed: bool, endpoint: bool = False) -> list[Hypothesis]:
        text = " ".join(part for part in (*self._closed, sentence) if part)
        if closed:
            self._closed.append(sentence)
        if text == self._shown and not endpoint:
            return []
        self._shown = text
        return [Hypothesis(text, endpoint)]
