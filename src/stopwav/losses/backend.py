"""The backends of the fused loss: the protocol, its arguments, and which backend runs on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from stopwav.errors import StopwavError
from stopwav.losses.joiner_batch import Lengths
from stopwav.losses.precision import Arithmetic

Activation = Literal["tanh", "relu", "none"]
ACTIVATIONS = ("tanh", "relu", "none")
BackendName = Literal["auto", "torch", "triton"]


@dataclass(frozen=True)
class Inputs:
    """The tensors that get gradients: `(N, T, D)`, `(N, U + 1, D)`, `(V, D)` and `(V,)`."""

    encodings: Tensor
    predictions: Tensor
    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Arguments:
    """The arguments that get no gradient; `chunk_cells`, if given, is how many cells have logits at a time."""

    targets: Tensor
    lengths: Lengths
    blank: int
    activation: Activation
    fastemit_lambda: float
    arithmetic: Arithmetic
    chunk_cells: int | None


class Backend(Protocol):
    """One way to compute the loss of a joiner without ever holding all of its logits."""

    def losses(self, inputs: Inputs, arguments: Arguments) -> tuple[Tensor, tuple[Tensor, ...]]:
        """-log p of every utterance, and the tensors that `gradients` needs."""
        ...

    def gradients(self, inputs: Inputs, arguments: Arguments, saved: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
        """The gradient of each input, in the input's type or a wider one."""
        ...


def choose_backend(name: BackendName, device: torch.device) -> Backend:
    """The backend of that name, or the best one for the device."""
    from stopwav.losses import torch_backend

    if name == "torch":
        return torch_backend
    if name not in ("auto", "triton"):
        raise StopwavError(f"backend {name!r}; give one of auto, torch, triton")
    if name == "auto" and device.type != "cuda":
        return torch_backend
    try:
        import triton  # noqa: F401
    except ImportError:
        if name == "auto":
            return torch_backend
        raise StopwavError("backend 'triton' needs the package triton; install it, or give backend='torch'") from None
    from stopwav.losses import triton_backend

    triton_backend.check_device(device)
    return triton_backend
