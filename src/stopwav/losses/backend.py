"""The backends of the fused loss: the protocol and its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from stopwav.losses.lengths import Lengths
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
