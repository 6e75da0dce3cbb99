"""Moonshine Voice: a small Transformer recogniser; version 0.1.0 of its package includes the tiny English model.

Only the package's transcriber is imported, and the model is read from the package's own folder: the functions that
download models are never called, so the engine never uses the network (tested).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import EngineInfo, Knob
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

# The rate that the model was trained on; the library would resample any other inside the timed part.
SAMPLE_RATE_HZ = 16_000
# The library has one voice detector for all streams of a process, and its memory of a stream changes the text of the
# next. Silence clears it: after 2 s texts still depended on the stream before, after 4 s none did.
SILENCE_S = 4


class Moonshine:
    """Moonshine tiny, English, through the library's own streaming: a growing segment is decoded again and again."""

    def __init__(self, source: str | None = None, update_interval_s: float = 0.5) -> None:
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber
        from moonshine_voice.utils import get_assets_path

        folder = Path(source) if source else Path(get_assets_path()) / "tiny-en"
        if not (folder / "encoder_model.ort").is_file():
            raise StopwavError(
                f"moonshine: no model in {folder} (encoder_model.ort is missing); "
                "give a folder with Moonshine's .ort files, or pip install 'moonshine-voice==0.1.0', which includes one"
            )
        self._transcriber = Transcriber(folder, ModelArch.TINY, update_interval=update_interval_s)
        self.info = EngineInfo(
            name="moonshine",
            version=version("moonshine-voice"),
            sample_rate_hz=SAMPLE_RATE_HZ,
            model=folder.name,
            language="en" if source is None else "",
            precision="8-bit weights (onnxruntime)",
        )

    @staticmethod
    def variants(options: Mapping[str, Any]) -> list[Knob]:
        """Return decoding twice and half as often: earlier text against more work."""
        return [Knob({"update_interval_s": factor * options["update_interval_s"]}) for factor in (0.5, 2.0)]

    def open(self) -> MoonshineSession:
        """Return a new stream."""
        self._clear_detector()
        return MoonshineSession(self._transcriber.create_stream())

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance, one after the other: the library has no batches.

        Here too the library's voice detector remembers the utterance before and cuts the next one differently: of eight
        bundled utterances in four orders, six had two or three texts, mostly with a short wrong word at the start.
        Streams of silence in between did not help, and transcribing four seconds of silence before each utterance,
        about 40 ms, left one that varied. So nothing is done about it: the time is the one that users of the library
        see, and texts can depend on the order.
        """
        return [self._transcribe(audio) for audio in batch]

    def _transcribe(self, audio: Audio) -> str:
        transcript = self._transcriber.transcribe_without_streaming(audio.samples.tolist(), audio.sample_rate_hz)
        return " ".join(line.text for line in transcript.lines)

    def _clear_detector(self) -> None:
        """Make the voice detector forget the previous stream."""
        silence = self._transcriber.create_stream()
        silence.start()
        for _ in range(SILENCE_S):
            silence.add_audio([0.0] * SAMPLE_RATE_HZ, SAMPLE_RATE_HZ)
        silence.stop()
        silence.close()


class MoonshineSession:
    """One stream: the library reports the lines that changed; the text is all lines joined."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lines: dict[int, str] = {}
        # The lines that the library's voice detector has ended, and how many of them were told.
        self._complete: set[int] = set()
        self._told = 0
        self._shown = ""
        self._error: Exception | None = None
        stream.add_listener(self._on_event)
        stream.start()

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the text if this audio changed it."""
        with stage("copy"):
            values = samples.tolist()  # the library takes a list of floats
        with stage("inference"):
            self._stream.add_audio(values, SAMPLE_RATE_HZ)
        return self._changed_text()

    def finish(self) -> list[Hypothesis]:
        """Return the final text."""
        with stage("inference"):
            self._stream.stop()
        # The end of the audio ends the last line: that is not the library's own word.
        self._told = len(self._complete)
        texts = self._changed_text()
        self._stream.close()
        return texts

    def _on_event(self, event: Any) -> None:
        # The library reports an error of its last update to listeners instead of raising it.
        if getattr(event, "error", None) is not None:
            self._error = event.error
        elif event.line is not None:
            self._lines[event.line.line_id] = event.line.text
            if event.line.is_complete and event.line.text:
                self._complete.add(event.line.line_id)

    def _changed_text(self) -> list[Hypothesis]:
        if self._error is not None:
            raise self._error
        with stage("post"):
            text = " ".join(self._lines.values())
        endpoint = len(self._complete) > self._told
        self._told = max(self._told, len(self._complete))
        if text == self._shown and not endpoint:
            return []
        self._shown = text
        return [Hypothesis(text, endpoint)]
