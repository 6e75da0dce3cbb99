"""A package of SpeechBrain's name that has its interfaces and records how they are called; no model is behind it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INTERFACES = """
from types import SimpleNamespace

import torch


class Pretrained:
    calls = []

    @classmethod
    def from_hparams(cls, source, run_opts):
        cls.calls.append((cls.__name__, source, run_opts))
        text = open(source + "/hyperparams.yaml").read()
        if text == "broken":
            raise ValueError("Need hparams['decoder']\\nand much more")
        made = cls()
        made.mods = torch.nn.ModuleDict({"encoder": torch.nn.Linear(3, 4)})
        made.audio_normalizer = SimpleNamespace(sample_rate=int(text))
        made.hparams = SimpleNamespace(sample_rate=int(text))
        return made

    def record(self, method, *tensors):
        self.calls.append((method, [tuple(tensor.shape) for tensor in tensors]))
        return torch.ones(8, 8) @ torch.ones(8, 8)
"""
ASR = '''
from speechbrain.inference.interfaces import Pretrained


class EncoderASR(Pretrained):
    """Returns how many samples of each utterance it got, and their sum."""

    def transcribe_batch(self, wavs, wav_lens):
        counts = [round(float(share) * wavs.shape[1]) for share in wav_lens]
        texts = [f" {count} {float(wave[:count].sum()):.0f} " for wave, count in zip(wavs, counts)]
        return texts, None


class EncoderDecoderASR(EncoderASR):
    def transcribe_batch(self, wavs, wav_lens):
        return [text.split() for text in super().transcribe_batch(wavs, wav_lens)[0]], None


class WhisperASR(EncoderASR):
    pass
'''
# Module, class, method and its parameters, as in SpeechBrain 1.0.
OTHERS = (
    ("classifiers", "EncoderClassifier", "classify_batch", "wavs, wav_lens=None"),
    ("SLU", "EndToEndSLU", "decode_batch", "wavs, wav_lens"),
    ("separation", "SepformerSeparation", "separate_batch", "mix"),
    ("metrics", "SNREstimator", "estimate_batch", "mix, predictions"),
    ("speaker", "SpeakerRecognition", "verify_batch", "wavs1, wavs2, wav1_lens=None, wav2_lens=None, threshold=0.25"),
    ("enhancement", "SpectralMaskEnhancement", "enhance_batch", "noisy, lengths=None"),
    ("VAD", "VAD", "get_speech_prob_chunk", "wavs, wav_lens=None"),
)


def other_interface(name: str, method: str, parameters: str) -> str:
    names = [parameter.split("=")[0].strip() for parameter in parameters.split(",")]
    tensors = ", ".join(name for name in names if name != "threshold")
    return (
        f"from speechbrain.inference.interfaces import Pretrained\n\n\nclass {name}(Pretrained):\n"
        f"    def {method}(self, {parameters}):\n        return self.record({method!r}, {tensors})\n"
    )


@contextmanager
def speechbrain_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put the package on the path, of fresh processes too, and yield the folder of a model."""
    package = folder / "site" / "speechbrain" / "inference"
    package.mkdir(parents=True)
    for place in (package.parent, package):
        (place / "__init__.py").write_text("")
    (package / "interfaces.py").write_text(INTERFACES)
    (package / "ASR.py").write_text(ASR)
    for module, name, method, parameters in OTHERS:
        (package / f"{module}.py").write_text(other_interface(name, method, parameters))
    about = folder / "site" / "speechbrain-9.8.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: speechbrain\nVersion: 9.8.7\n")
    _forget()
    monkeypatch.syspath_prepend(str(folder / "site"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")]))
    model = folder / "model"
    model.mkdir()
    (model / "hyperparams.yaml").write_text("16000")
    yield model
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "speechbrain"]:
        del sys.modules[name]
