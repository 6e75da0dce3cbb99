"""faster-whisper: Whisper on CTranslate2; a model is a folder that the toolkit's converter wrote."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.toolkit import check_choice, check_whole_number, model_folder, model_name, toolkit_error
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio

NAME = "faster-whisper"
SAMPLE_RATE_HZ = 16_000
# Without the last one the toolkit would download a tokenizer.
FILES = ("config.json", "model.bin", "tokenizer.json")


class FasterWhisper:
    """The engine `faster-whisper:FOLDER_OR_ID[,dtype=int8][,device=cuda][,beam=5][,language=en][,threads=N]`."""

    def __init__(
        self,
        source: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        beam: int = 5,
        language: str | None = None,
        threads: int = 0,
    ) -> None:
        folder = model_folder(NAME, source)
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise StopwavError(f"{NAME}: {folder} has no {', '.join(missing)}; convert a model with its tokenizer.json")
        _check_device(device, dtype)
        check_whole_number(NAME, "beam", beam, 1)
        check_whole_number(NAME, "threads", threads, 0)
        from faster_whisper import WhisperModel

        try:
            self._model = WhisperModel(str(folder), device=device, compute_type=dtype, cpu_threads=threads)
        except Exception as error:
            raise toolkit_error(NAME, error, f"{folder} must contain a Whisper that CTranslate2 converted") from error
        self._options: dict[str, Any] = {"beam_size": beam, "language": language}
        self.info = EngineInfo(
            name=NAME,
            version=f"{version('faster-whisper')}, ctranslate2 {version('ctranslate2')}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            device=device,
            precision=dtype,
            language=language or "",
            model=f"{model_name(source, folder)} (beam {beam}, {threads or 'default'} threads)",
        )

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance, one after the other: the toolkit only batches parts of one recording."""
        return [self._transcribe(audio) for audio in batch]

    def _transcribe(self, audio: Audio) -> str:
        # Features and network are one call of the toolkit, and its segments are computed as they are read.
        with stage("inference"):
            segments, _ = self._model.transcribe(audio.samples, **self._options)
            parts = [segment.text for segment in segments]
        with stage("post"):
            return "".join(parts).strip()


def _check_device(device: str, dtype: str) -> None:
    import ctranslate2

    check_choice(NAME, "device", device, ("cpu", "cuda"))
    if device == "cuda" and ctranslate2.get_cuda_device_count() == 0:
        raise StopwavError(f"{NAME}: device=cuda: CTranslate2 {ctranslate2.__version__} finds no NVIDIA GPU; use cpu")
    # The toolkit silently replaces one that the device lacks: a time would have the wrong label.
    check_choice(NAME, "dtype", dtype, tuple(sorted(ctranslate2.get_supported_compute_types(device))))
