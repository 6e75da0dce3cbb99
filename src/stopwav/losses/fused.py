"""Joiner and transducer loss in one: exact, and without ever holding the logits of more than a chunk of cells.

The forward pass keeps, of each real cell, what the loss needs of its logits, a few numbers. The backward pass computes
the logits again, chunk by chunk, and turns them into gradients where they lie. docs/guides/fused-loss.md explains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwav.errors import StopwavError
from stopwav.losses.job import ACTIVATIONS, Activation, Backend, Inputs, Job
from stopwav.losses.lengths import Reduction, checked_lengths, checked_targets, reduced
from stopwav.losses.precision import Precision, arithmetic_of

BackendName = Literal["auto", "torch", "triton"]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _as_it_is(function: _Function) -> _Function:
    """The function, which `torch.compile` calls and does not look into: loops over launches of kernels are no graph."""
    return cast(_Function, torch.compiler.disable(function))


@_as_it_is
def transducer_loss(
    encoder_out: Tensor,
    predictor_out: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    activation: Activation = "tanh",
    reduction: Reduction = "mean",
    fastemit_lambda: float = 0.0,
    precision: Precision | None = None,
    chunk_cells: int | None = None,
    backend: BackendName = "auto",
) -> Tensor:
    """-log p(targets | audio) of every utterance, or their sum or mean, of the joiner
    `activation(encoder_out + predictor_out) @ weight.T + bias`.

    `encoder_out` is `(N, T, D)`, `predictor_out` `(N, U + 1, D)`, `weight` `(V, D)`, `bias` `(V,)` or None, `targets`
    `(N, U)`. Gradients go to the first four. Padding costs no time where the lengths lie on the host; where they lie on
    the GPU nothing waits for them, and matrix products cover the padding too. `fastemit_lambda` changes the gradient
    and not the value: labels get 1 + lambda times theirs. `precision` is that of the matrix products, `float64`,
    `float32`, `tf32`, `bfloat16` or `float16`; without it that of autocast, or of the inputs. `backend` is `triton` on
    a GPU that has it, or else `torch`.
    """
    _check_tensors(encoder_out, predictor_out, weight, bias, targets)
    _check_settings(activation, fastemit_lambda, chunk_cells)
    device = encoder_out.device
    batch, frames, _ = encoder_out.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, predictor_out.shape[1] - 1, device)
    job = Job(
        checked_targets(targets, lengths, len(weight), blank, device),
        lengths,
        blank,
        activation,
        fastemit_lambda,
        arithmetic_of(precision, encoder_out),
        chunk_cells,
    )
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    losses = _FusedLoss.apply(encoder_out, predictor_out, weight, bias, job, _backend(backend, device))  # type: ignore[no-untyped-call]
    return reduced(losses, reduction)


class _FusedLoss(torch.autograd.Function):
    """Loss and gradient by a backend."""

    @staticmethod
    def forward(
        ctx: Any, encodings: Tensor, predictions: Tensor, weight: Tensor, bias: Tensor, job: Job, backend: Backend
    ) -> Tensor:
        # Triton launches on the current device, which need not be that of the batch.
        with job.arithmetic.products(), torch.cuda.device_of(encodings):
            losses, kept = backend.losses(Inputs(encodings, predictions, weight, bias), job)
        ctx.save_for_backward(encodings, predictions, weight, bias, *kept)
        ctx.job, ctx.backend = job, backend
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        encodings, predictions, weight, bias, *kept = ctx.saved_tensors
        inputs = Inputs(encodings, predictions, weight, bias)
        # Half precision ends at 65504, and a loss that is scaled for it comes with a gradient as large: shares of the
        # largest fit, whatever it is.
        largest = grad_losses.abs().max().clamp(min=torch.finfo(grad_losses.dtype).tiny)
        with ctx.job.arithmetic.products(), torch.cuda.device_of(encodings):
            found = ctx.backend.gradients(inputs, ctx.job, tuple(kept), grad_losses / largest)
        pairs = (
            (found.encodings, encodings),
            (found.predictions, predictions),
            (found.weight, weight),
            (found.bias, bias),
        )
        grads = [grad.mul_(largest).to(one.dtype) for grad, one in pairs]
        return (*grads, None, None)


def _backend(name: BackendName, device: torch.device) -> Backend:
    """The backend of that name, or the best one for the device."""
    from stopwav.losses import chunked

    if name == "torch":
        return chunked
    if name not in ("auto", "triton"):
        raise StopwavError(f"backend {name!r}; give one of auto, torch, triton")
    if name == "auto" and device.type != "cuda":
        return chunked
    try:
        import triton  # noqa: F401
    except ImportError:
        if name == "auto":
            return chunked
        raise StopwavError("backend 'triton' needs the package triton; install it, or give backend='torch'") from None
    from stopwav.losses import packed

    packed.check_device(device)
    return packed


def _check_tensors(
    encodings: Tensor, predictions: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> None:
    """Refuse what does not fit together."""
    given = [one for one in (encodings, predictions, weight, bias, targets) if one is not None]
    right = (
        all(isinstance(one, Tensor) for one in given)
        and encodings.dim() == predictions.dim() == 3
        and weight.dim() == targets.dim() == 2
        and predictions.shape == (len(encodings), targets.shape[1] + 1, encodings.shape[2])
        and weight.shape[1] == encodings.shape[2]
        and (bias is None or bias.shape == weight.shape[:1])
    )
    if not right:
        shapes = (str(tuple(one.shape)) if isinstance(one, Tensor) else type(one).__name__ for one in given)
        raise StopwavError(
            f"inputs of shapes {', '.join(shapes)}; give tensors (N, T, D), (N, U + 1, D), (V, D), (V,) and (N, U)"
        )


def _check_settings(activation: Activation, fastemit_lambda: float, chunk_cells: int | None) -> None:
    """Refuse what no loss can be computed with."""
    if activation not in ACTIVATIONS:
        raise StopwavError(f"activation {activation!r}; give one of {', '.join(ACTIVATIONS)}")
    if not math.isfinite(fastemit_lambda):
        raise StopwavError(f"fastemit_lambda {fastemit_lambda}; give a finite number, 0 for none")
    if chunk_cells is not None and chunk_cells < 1:
        raise StopwavError(f"chunk_cells {chunk_cells}; give at least 1, or None for a size that suits the device")
