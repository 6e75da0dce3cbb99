"""SpeechBrain: recognisers loaded by the toolkit's own `from_hparams`.

A SpeechBrain model is a program: its hyperparams.yaml names the classes to create, and loading it runs their code. Load
only models that you trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.toolkit import check_choice, check_torch_device, find_model, toolkit_error
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio

NAME = "speechbrain"
SAMPLE_RATE_HZ = 16_000
# The toolkit's interfaces that have transcribe_batch().
TYPES = ("EncoderASR", "EncoderDecoderASR", "WhisperASR")


class SpeechBrain:
    """The engine `speechbrain:PATH_OR_ID,type=EncoderASR[,device=cuda]`."""

    def __init__(self, source: str | None = None, type: str = "EncoderASR", device: str = "cpu") -> None:
        check_choice(NAME, "type", type, TYPES)
        device = check_torch_device(NAME, device)
        model, _ = find_model(NAME, source, "hyperparams.yaml")
        self._device = "cuda:0" if device == "cuda" else device  # the toolkit needs the number
        self._model = _load(model, type, self._device)
        self.info = EngineInfo(
            name=NAME,
            version=f"{version('speechbrain')}, torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in self._model.mods.parameters()),
            device=device,
            model=f"{Path(model).name} ({type})",
        )

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; the model processes the whole batch, padded to its longest, at once."""
        with stage("copy"):
            waves = [torch.from_numpy(audio.samples) for audio in batch]
            padded = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True).to(self._device)
            longest = max(len(wave) for wave in waves)
            # The toolkit gives lengths as shares of the longest.
            shares = torch.tensor([len(wave) / longest for wave in waves], device=self._device)
        # Features, network and text are one call of the toolkit.
        with stage("inference"), torch.inference_mode():
            texts, _ = self._model.transcribe_batch(padded, shares)
        with stage("post"):
            # Some models return words, the others one string.
            return [(text if isinstance(text, str) else " ".join(text)).strip() for text in texts]


def _load(model: str, type: str, device: str) -> Any:
    try:
        from speechbrain.inference import ASR
    except Exception as error:  # its torchaudio may not match PyTorch, which fails in many ways
        hint = "speechbrain is installed but does not import; install the torchaudio that matches this PyTorch"
        raise toolkit_error(NAME, error, hint) from error
    try:
        loaded = getattr(ASR, type).from_hparams(source=model, run_opts={"device": device})
    except Exception as error:
        hint = f"{model} must be a model whose card names {type}; the types are {', '.join(TYPES)}"
        raise toolkit_error(NAME, error, hint) from error
    rate_hz = getattr(getattr(loaded, "audio_normalizer", None), "sample_rate", SAMPLE_RATE_HZ)
    if rate_hz != SAMPLE_RATE_HZ:
        raise StopwavError(f"{NAME}: {model} needs audio at {rate_hz} Hz; only {SAMPLE_RATE_HZ} Hz is supported")
    return loaded
