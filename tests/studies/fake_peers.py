"""Packages of others' names that do what theirs do wrong, and nothing else: for the tests of losses and engines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Importing SpeechBrain switches TF32 on; its loss divides the value by the frames and not the gradient.
SPEECHBRAIN = """
import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
"""
TRANSDUCER = """
import torch
from stopwav.losses.oracle import plain_loss


class Transducer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, log_probs, labels, T, U, blank, reduction):
        with torch.enable_grad():
            leaf = log_probs.detach().requires_grad_()
            losses = plain_loss(leaf, labels, T, U, blank)
            (ctx.grads,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach() / T

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.grads * grad_output.view(-1, 1, 1, 1), None, None, None, None, None
"""
NEMO = """
import torch
from stopwav.losses.oracle import plain_loss


class RNNTLossNumba:
    def __init__(self, blank, reduction):
        self.blank, self.reduction = blank, reduction

    def __call__(self, acts, labels, act_lens, label_lens):
        for integers in (labels, act_lens, label_lens):
            if integers.dtype is not torch.{integers}:
                raise TypeError("labels must be torch.{integers}")
        return plain_loss(acts, labels, act_lens, label_lens, self.blank, reduction=self.reduction)
"""


def speechbrain(folder: Path) -> None:
    """Write a package of SpeechBrain's name into a folder of packages."""
    _module(folder, "speechbrain", SPEECHBRAIN)
    _module(folder, "speechbrain.integrations.numba.transducer_loss", TRANSDUCER)
    _metadata(folder, "speechbrain", "1.1.2")


def nemo(folder: Path, version: str, integers: str) -> None:
    """Write a package of NeMo's name, of a version whose loss wants such integers."""
    _module(folder, "nemo.collections.asr.parts.numba.rnnt_loss", NEMO.format(integers=integers))
    _metadata(folder, "nemo_toolkit", version)


@contextmanager
def on_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a folder of packages on the path, also of fresh processes, and forget what was imported from it."""
    monkeypatch.syspath_prepend(str(folder))
    packages = {path.name for path in folder.iterdir()}
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        del sys.modules[name]


def _module(folder: Path, name: str, content: str) -> None:
    """Write a module as a package, and an empty one for each that it is in."""
    place = folder
    for part in name.split("."):
        place = place / part
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "__init__.py").exists():
            (place / "__init__.py").write_text("")
    (place / "__init__.py").write_text(content)


def _metadata(folder: Path, name: str, version: str) -> None:
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
