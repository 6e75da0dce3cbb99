"""What a fused loss is asked for, beside the tensors that gradients go to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from stopwav.losses.lengths import Lengths
from stopwav.losses.precision import Arithmetic

Activation = Literal["tanh", "relu", "none"]
ACTIVATIONS = ("tanh", "relu", "none")


@dataclass(frozen=True)
class Job:
    """Labels, lengths and settings of one batch; `chunk_cells` is how many cells have logits at a time, if given."""

    targets: Tensor
    lengths: Lengths
    blank: int
    activation: Activation
    fastemit_lambda: float
    arithmetic: Arithmetic
    chunk_cells: int | None


@dataclass(frozen=True)
class Inputs:
    """What gradients go to: encodings `(N, T, D)`, predictions `(N, U + 1, D)`, weight `(V, D)` and bias `(V,)`."""

    encodings: Tensor
    predictions: Tensor
    weight: Tensor
    bias: Tensor


class Backend(Protocol):
    """One way to compute the loss of a joiner without ever holding all of its logits."""

    def losses(self, inputs: Inputs, job: Job) -> tuple[Tensor, tuple[Tensor, ...]]:
        """-log p of every utterance, and what `gradients` wants to have kept."""
        ...

    def gradients(self, inputs: Inputs, job: Job, kept: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
        """The gradient of each input, in the inputs' own types or wider."""
        ...
