"""Joiner and transducer loss in one: exact, and never holding the logits of more than a chunk of cells.

The forward pass saves a few numbers per real cell. The backward pass computes the logits again, chunk by chunk, and
turns them into gradients. docs/guides/fused-loss.md explains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwav.errors import StopwavError
from stopwav.losses.backend import ACTIVATIONS, Activation, Arguments, Backend, BackendName, Inputs
from stopwav.losses.lengths import Reduction, checked_lengths, checked_targets, reduced
from stopwav.losses.precision import Precision, arithmetic_of

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _not_compiled(function: _Function) -> _Function:
    """Keep `torch.compile` out of the function: loops over kernel launches are not a graph."""
    return cast(_Function, torch.compiler.disable(function))


@_not_compiled
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
    `(N, U)`. The first four get gradients. With lengths on the host, padding costs no time; with lengths on the GPU
    nothing waits for them, and matrix products include the padding. `fastemit_lambda` changes the gradient and not the
    value: that of labels is multiplied by 1 + lambda. `precision` is that of the matrix products, `float64`, `float32`,
    `tf32`, `bfloat16` or `float16`; without it that of autocast, or of the inputs. `backend` is by default `triton` on
    a GPU if it is installed, or else `torch`.
    """
    _check_tensors(encoder_out, predictor_out, weight, bias, targets)
    _check_settings(activation, fastemit_lambda, chunk_cells)
    device = encoder_out.device
    batch, frames, _ = encoder_out.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, predictor_out.shape[1] - 1, device)
    arguments = Arguments(
        checked_targets(targets, lengths, len(weight), blank, device),
        lengths,
        blank,
        activation,
        fastemit_lambda,
        arithmetic_of(precision, encoder_out),
        chunk_cells,
    )
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    inputs = (encoder_out, predictor_out, weight, bias)
    losses = _FusedLoss.apply(*inputs, arguments, choose_backend(backend, device))  # type: ignore[no-untyped-call]
    return reduced(losses, reduction)


class _FusedLoss(torch.autograd.Function):
    """Loss and gradient by a backend."""

    @staticmethod
    def forward(
        ctx: Any,
        encodings: Tensor,
        predictions: Tensor,
        weight: Tensor,
        bias: Tensor,
        arguments: Arguments,
        backend: Backend,
    ) -> Tensor:
        # Triton launches on the current device, which need not be that of the batch.
        with arguments.arithmetic.products(), torch.cuda.device_of(encodings):
            losses, saved = backend.losses(Inputs(encodings, predictions, weight, bias), arguments)
        ctx.save_for_backward(encodings, predictions, weight, bias, *saved)
        ctx.arguments, ctx.backend = arguments, backend
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        encodings, predictions, weight, bias, *saved = ctx.saved_tensors
        inputs = Inputs(encodings, predictions, weight, bias)
        largest = None
        if ctx.arguments.arithmetic.dtype == torch.float16:
            # It ends at 65504, and a scaled loss has gradients as large: divided by the largest, they always fit.
            largest = grad_losses.abs().max().clamp(min=torch.finfo(grad_losses.dtype).tiny)
            grad_losses = grad_losses / largest
        with ctx.arguments.arithmetic.products(), torch.cuda.device_of(encodings):
            grads = ctx.backend.gradients(inputs, ctx.arguments, tuple(saved), grad_losses)
        pairs = (
            (grads.encodings, encodings),
            (grads.predictions, predictions),
            (grads.weight, weight),
            (grads.bias, bias),
        )
        return (*((grad if largest is None else grad * largest).to(tensor.dtype) for grad, tensor in pairs), None, None)


def _check_tensors(
    encodings: Tensor, predictions: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> None:
    """Refuse tensors whose shapes do not match."""
    given = [tensor for tensor in (encodings, predictions, weight, bias, targets) if tensor is not None]
    matching = (
        all(isinstance(tensor, Tensor) for tensor in given)
        and encodings.dim() == predictions.dim() == 3
        and weight.dim() == targets.dim() == 2
        and predictions.shape == (len(encodings), targets.shape[1] + 1, encodings.shape[2])
        and weight.shape[1] == encodings.shape[2]
        and (bias is None or bias.shape == weight.shape[:1])
    )
    if not matching:
        shapes = (str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__ for value in given)
        raise StopwavError(
            f"inputs of shapes {', '.join(shapes)}; give tensors (N, T, D), (N, U + 1, D), (V, D), (V,) and (N, U)"
        )


def _check_settings(activation: Activation, fastemit_lambda: float, chunk_cells: int | None) -> None:
    """Refuse settings with which no loss can be computed."""
    if activation not in ACTIVATIONS:
        raise StopwavError(f"activation {activation!r}; give one of {', '.join(ACTIVATIONS)}")
    if not math.isfinite(fastemit_lambda):
        raise StopwavError(f"fastemit_lambda {fastemit_lambda}; give a finite number, 0 for none")
    if chunk_cells is not None and chunk_cells < 1:
        raise StopwavError(f"chunk_cells {chunk_cells}; give at least 1, or None for a size that suits the device")


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
