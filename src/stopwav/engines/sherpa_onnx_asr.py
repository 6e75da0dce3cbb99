"""sherpa-onnx: recognisers exported to ONNX, offline and streaming; a model is a folder."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import DEFAULT_CHUNK_S, EngineInfo
from stopwav.engines.sherpa_folder import (
    NAME,
    PRECISIONS,
    find_files,
    find_kind,
    find_tokens,
    precision,
    streaming_shape,
)
from stopwav.engines.toolkit import check_choice, check_whole_number, model_folder, model_name, toolkit_error
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

SAMPLE_RATE_HZ = 16_000
# Silence after the last word, as in the toolkit's own examples: without it the last chunk is not full, so not decoded.
TAIL_S = 0.66


def sherpa_onnx(
    source: str | None = None, type: str | None = None, dtype: str | None = None, device: str = "cpu", threads: int = 1
) -> SherpaOffline | SherpaStreaming:
    """Return the engine `sherpa-onnx:FOLDER_OR_ID[,type=KIND][,dtype=int8][,device=cuda][,threads=N]`.

    It streams if the model does. Without a folder it is the Moonshine that `moonshine-voice` includes.
    """
    if dtype is not None:
        check_choice(NAME, "dtype", dtype, PRECISIONS)
    _check_device(device)
    check_whole_number(NAME, "threads", threads, 1)
    folder = model_folder(NAME, source or _packaged_model())
    kind = find_kind(folder, type)
    files = find_files(folder, kind, dtype)
    shape = streaming_shape(files["encoder"]) if kind == "transducer" else None
    recogniser = _load(folder, kind, files, shape is not None, {"num_threads": threads, "provider": device})
    info = EngineInfo(
        name=NAME,
        version=version("sherpa-onnx"),
        sample_rate_hz=SAMPLE_RATE_HZ,
        chunk_s=shape.chunk_s if shape else DEFAULT_CHUNK_S,
        lookahead_s=shape.lookahead_s if shape else 0.0,
        device=device,
        precision=_precision(files),
        model=f"{model_name(source, folder)} ({kind}, {threads} thread{'s' if threads > 1 else ''})",
    )
    return SherpaStreaming(recogniser, info) if shape else SherpaOffline(recogniser, info)


class SherpaOffline:
    """A model that needs the whole utterance."""

    def __init__(self, recogniser: Any, info: EngineInfo) -> None:
        self._recogniser = recogniser
        self.info = info

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance, in a batch of the toolkit."""
        with stage("features"):
            streams = [self._recogniser.create_stream() for _ in batch]
            for stream, audio in zip(streams, batch, strict=True):
                stream.accept_waveform(SAMPLE_RATE_HZ, audio.samples)
        with stage("inference"):
            self._recogniser.decode_streams(streams)
        with stage("post"):
            return [stream.result.text.strip() for stream in streams]


class SherpaStreaming:
    """A model that takes the audio chunk by chunk."""

    def __init__(self, recogniser: Any, info: EngineInfo) -> None:
        self._recogniser = recogniser
        self.info = info

    def open(self) -> SherpaSession:
        """Return a new stream."""
        return SherpaSession(self._recogniser)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; the streams of a batch advance together."""
        with stage("features"):
            streams = [self._recogniser.create_stream() for _ in batch]
            for stream, audio in zip(streams, batch, strict=True):
                stream.accept_waveform(SAMPLE_RATE_HZ, audio.samples)
                _end(stream)
        with stage("inference"):
            while ready := [stream for stream in streams if self._recogniser.is_ready(stream)]:
                self._recogniser.decode_streams(ready)
        with stage("post"):
            return [self._recogniser.get_result(stream).strip() for stream in streams]


class SherpaSession:
    """One stream."""

    def __init__(self, recogniser: Any) -> None:
        self._recogniser = recogniser
        self._stream = recogniser.create_stream()
        self._shown = ""

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the text if this audio changed it."""
        with stage("features"):
            self._stream.accept_waveform(SAMPLE_RATE_HZ, samples)
        return self._decode()

    def finish(self) -> list[Hypothesis]:
        """Return the final text if the end changed it."""
        with stage("features"):
            _end(self._stream)
        return self._decode()

    def _decode(self) -> list[Hypothesis]:
        with stage("inference"):
            while self._recogniser.is_ready(self._stream):
                self._recogniser.decode_stream(self._stream)
        with stage("post"):
            text = self._recogniser.get_result(self._stream).strip()
        if text == self._shown:
            return []
        self._shown = text
        return [Hypothesis(text)]


def _end(stream: Any) -> None:
    stream.accept_waveform(SAMPLE_RATE_HZ, np.zeros(round(TAIL_S * SAMPLE_RATE_HZ), dtype=np.float32))
    stream.input_finished()


def _load(folder: Path, kind: str, files: dict[str, Path], streaming: bool, options: dict[str, Any]) -> Any:
    """Return the toolkit's recogniser, made by its constructor for the kind."""
    from sherpa_onnx import OfflineRecognizer, OnlineRecognizer

    make = getattr(OnlineRecognizer if streaming else OfflineRecognizer, f"from_{kind}")
    with tempfile.TemporaryDirectory() as scratch:
        if "tokens" not in files:
            files["tokens"] = find_tokens(folder, Path(scratch))
        try:
            return make(**{argument: str(path) for argument, path in files.items()}, **options)
        except Exception as error:
            raise toolkit_error(NAME, error, f"{folder} is not a {kind} model, or it is broken") from error


def _precision(files: dict[str, Path]) -> str:
    """Return the precision of the weights; the name of an .ort file does not show it."""
    models = [path for path in files.values() if path.suffix == ".onnx"]
    return f"{' and '.join(sorted({precision(path) for path in models})) or 'as stored'} (onnxruntime)"


def _check_device(device: str) -> None:
    check_choice(NAME, "device", device, ("cpu", "cuda"))
    # With device=cuda, a build without CUDA warns and runs on the CPU: a time would have the wrong label.
    if device == "cuda" and "cuda" not in version("sherpa-onnx"):
        raise StopwavError(
            f"{NAME}: device=cuda: sherpa-onnx {version('sherpa-onnx')} is built without CUDA; "
            "install a +cuda wheel of the toolkit, or use cpu"
        )


def _packaged_model() -> str | None:
    """Return the model folder of moonshine-voice, without importing it, which would load a second recogniser."""
    package = importlib.util.find_spec("moonshine_voice")
    return str(Path(package.origin).parent / "assets" / "tiny-en") if package and package.origin else None
