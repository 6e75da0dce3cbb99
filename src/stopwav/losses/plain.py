"""The transducer loss on logits in plain PyTorch, for any device: the baseline that needs only torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwav.errors import StopwavError
from stopwav.losses.lengths import Lengths, Reduction, checked_lengths, checked_targets, reduced
from stopwav.losses.recursion import posteriors


def plain_loss(
    logits: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: Reduction = "none",
    fastemit_lambda: float = 0.0,
) -> Tensor:
    """-log p of every utterance, or their sum or mean, from padded logits `(batch, frames, labels + 1, symbols)`.

    Logits are normalised inside. Besides them and their gradient it needs about the memory of one utterance.
    """
    if logits.dim() != 4 or targets.dim() != 2 or logits.shape[2] != targets.shape[1] + 1:
        shapes = f"{tuple(logits.shape)} and {tuple(targets.shape)}"
        raise StopwavError(f"logits and targets of shapes {shapes}; give (N, T, U + 1, V) and (N, U)")
    batch, frames, positions, symbols = logits.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, positions - 1, logits.device)
    labels = checked_targets(targets, lengths, symbols, blank, logits.device)
    losses = _PlainLoss.apply(logits, labels, lengths, blank, fastemit_lambda)  # type: ignore[no-untyped-call]
    return reduced(losses, reduction)


class _PlainLoss(torch.autograd.Function):
    """Loss and its analytic gradient; tensors with all symbols are computed one utterance at a time."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, lengths: Lengths, blank: int, fastemit_lambda: float
    ) -> Tensor:
        sum_dtype = torch.promote_types(logits.dtype, torch.float32)
        blank_scores = logits.new_empty(logits.shape[:3], dtype=torch.float64)
        label_scores = torch.zeros_like(blank_scores)
        for index, cells in enumerate(logits):
            # In float64 from here on: where logits differ by tens of thousands, a float32 score loses its decimals. The
            # largest log-probability is small and keeps them.
            spread = -torch.log_softmax(cells, dim=-1, dtype=sum_dtype).amax(dim=-1).double()
            norm = cells.amax(dim=-1).double() + spread
            blank_scores[index] = cells[..., blank].double() - norm
            if targets.shape[1]:
                labels = targets[index, None, :, None].expand(len(cells), -1, 1)
                label_scores[index, :, :-1] = cells[:, :-1].gather(2, labels)[..., 0].double() - norm[:, :-1]
        arcs = posteriors(blank_scores, label_scores, lengths).rounded(sum_dtype)
        ctx.save_for_backward(logits, targets, arcs.blank, arcs.label)
        ctx.blank, ctx.fastemit_lambda = blank, fastemit_lambda
        return -arcs.total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        logits, targets, blank_posteriors, label_posteriors = ctx.saved_tensors
        grad = torch.empty_like(logits)
        sum_dtype = torch.promote_types(logits.dtype, torch.float32)
        for index, cells in enumerate(logits):
            to_blank = -grad_losses[index] * blank_posteriors[index]
            to_label = -grad_losses[index] * (1 + ctx.fastemit_lambda) * label_posteriors[index]
            total = (to_blank + to_label)[..., None]
            # Cells on no path have no gradient, whatever their logits: in padding those may be NaN.
            cell_grad = torch.softmax(cells, dim=-1, dtype=sum_dtype).mul_(-total).masked_fill_(total == 0, 0)
            cell_grad[..., ctx.blank] += to_blank
            if targets.shape[1]:
                labels = targets[index, None, :, None].expand(len(cells), -1, 1)
                cell_grad[:, :-1].scatter_add_(2, labels, to_label[:, :-1, None])
            grad[index] = cell_grad
        return grad, None, None, None, None
