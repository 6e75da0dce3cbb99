"""SpeechBrain: recognisers and, for the grid, other models, loaded by the toolkit's own `from_hparams`.

A SpeechBrain model is a program: its hyperparams.yaml names the classes to create, and loading it runs their code. Load
only models that you trust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
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

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Interface:
    """An interface of the toolkit that gives no transcript: its module, the method for a batch, and what that takes."""

    module: str
    method: str
    # From the waves, padded to the longest, and each one's share of that length.
    arguments: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]] = lambda waves, shares: (waves, shares)
    # A search takes longer for some audio; a network alone does not.
    data_dependent: bool = False
    note: str = ""


# Those of SpeechBrain's own profiling script, with the methods that it calls.
PROCESSORS = {
    "EncoderClassifier": Interface("classifiers", "classify_batch"),
    "EndToEndSLU": Interface("SLU", "decode_batch", data_dependent=True),
    "SepformerSeparation": Interface("separation", "separate_batch", lambda waves, shares: (waves,)),
    "SNREstimator": Interface(
        "metrics",
        "estimate_batch",
        lambda waves, shares: (waves, torch.stack([waves, waves], dim=-1)),
        note="the audio itself stands for both of the separated sources",
    ),
    "SpeakerRecognition": Interface(
        "speaker",
        "verify_batch",
        lambda waves, shares: (waves, waves, shares, shares),
        note="each utterance is verified against itself: two encodings for each",
    ),
    "SpectralMaskEnhancement": Interface("enhancement", "enhance_batch"),
    "VAD": Interface("VAD", "get_speech_prob_chunk", note="frame probabilities, without the search for boundaries"),
}


def speechbrain(
    source: str | None = None, type: str = "EncoderASR", device: str = "cpu"
) -> SpeechBrainRecogniser | SpeechBrainProcessor:
    """Return the engine `speechbrain:PATH_OR_ID,type=EncoderASR[,device=cuda]`; its type decides what it does."""
    check_choice(NAME, "type", type, (*TYPES, *PROCESSORS))
    device = check_torch_device(NAME, device)
    model, _ = find_model(NAME, source, "hyperparams.yaml")
    if type in PROCESSORS:
        return SpeechBrainProcessor(model, type, device)
    return SpeechBrainRecogniser(model, type, device)


class SpeechBrainRecogniser:
    """An interface that transcribes."""

    def __init__(self, model: str, type: str, device: str) -> None:
        self._device = _numbered(device)
        self._model = _load(model, "ASR", type, self._device)
        rate_hz = getattr(getattr(self._model, "audio_normalizer", None), "sample_rate", SAMPLE_RATE_HZ)
        if rate_hz != SAMPLE_RATE_HZ:
            raise StopwavError(f"{NAME}: {model} needs audio at {rate_hz} Hz; only {SAMPLE_RATE_HZ} Hz is supported")
        self.info = _info(self._model, model, type, device, SAMPLE_RATE_HZ)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; the model processes the whole batch, padded to its longest, at once."""
        waves, shares = _padded(batch, self._device)
        # Features, network and text are one call of the toolkit.
        with stage("inference"), torch.inference_mode():
            texts, _ = self._model.transcribe_batch(waves, shares)
        with stage("post"):
            # Some models return words, the others one string.
            return [(text if isinstance(text, str) else " ".join(text)).strip() for text in texts]


class SpeechBrainProcessor:
    """An interface that gives no transcript: a classifier, a detector, a separator."""

    def __init__(self, model: str, type: str, device: str) -> None:
        self._device = _numbered(device)
        self._interface = PROCESSORS[type]
        self._model = _load(model, self._interface.module, type, self._device)
        # Separation models are for 8 or 16 kHz, and say it in their hyperparameters.
        rate_hz = getattr(getattr(self._model, "hparams", None), "sample_rate", SAMPLE_RATE_HZ)
        info = _info(self._model, model, type, device, int(rate_hz))
        notes = ("gives no transcript; its result is dropped", *filter(None, [self._interface.note]))
        self.info = replace(info, notes=notes, data_dependent=self._interface.data_dependent)

    def process(self, batch: Sequence[Audio]) -> object:
        """Process the whole batch, padded to its longest, at once."""
        waves, shares = _padded(batch, self._device)
        with stage("inference"), torch.inference_mode():
            return getattr(self._model, self._interface.method)(*self._interface.arguments(waves, shares))


def _numbered(device: str) -> str:
    return "cuda:0" if device == "cuda" else device  # the toolkit needs the number


def _padded(batch: Sequence[Audio], device: str) -> Batch:
    """The waves of a batch on the device, padded to the longest, and the share of that length that each has."""
    with stage("copy"):
        waves = [torch.from_numpy(audio.samples) for audio in batch]
        padded = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True).to(device)
        longest = max(len(wave) for wave in waves)
        # The toolkit gives lengths as shares of the longest.
        return padded, torch.tensor([len(wave) / longest for wave in waves], device=device)


def _info(loaded: Any, model: str, type: str, device: str, rate_hz: int) -> EngineInfo:
    return EngineInfo(
        name=NAME,
        version=f"{version('speechbrain')}, torch {torch.__version__}",
        sample_rate_hz=rate_hz,
        parameters=sum(parameter.numel() for parameter in loaded.mods.parameters()),
        device=device,
        model=f"{Path(model).name} ({type})",
    )


def _load(model: str, module: str, type: str, device: str) -> Any:
    try:
        interface = getattr(import_module(f"speechbrain.inference.{module}"), type)
    except Exception as error:  # its torchaudio may not match PyTorch, which fails in many ways
        hint = "speechbrain is installed but does not import; install the torchaudio that matches this PyTorch"
        raise toolkit_error(NAME, error, hint) from error
    try:
        return interface.from_hparams(source=model, run_opts={"device": device})
    except Exception as error:
        hint = f"{model} must be a model whose card names {type}; the types are {', '.join((*TYPES, *PROCESSORS))}"
        raise toolkit_error(NAME, error, hint) from error
