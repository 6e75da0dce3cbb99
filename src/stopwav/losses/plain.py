"""The transducer loss on logits in plain PyTorch, for any device: the yardstick that needs nothing but torch."""

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

    Logits are normalised inside. Beside them and their gradient it needs about one utterance's worth of memory.
    """
    if logits.dim() != 4 or targets.dim() != 2 or logits.shape[2] != targets.shape[1] + 1:
        shapes = f"{tuple(logits.shape)} and {tuple(targets.shape)}"
        raise StopwavError(f"logits and targets of shapes {shapes}; give (N, T, U + 1, V) and (N, U)")
    batch, frames, places, symbols = logits.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, places - 1, logits.device)
    labels = checked_targets(targets, lengths, symbols, blank, logits.device)
    losses = _PlainLoss.apply(logits, labels, lengths, blank, fastemit_lambda)  # type: ignore[no-untyped-call]
    return reduced(losses, reduction)


class _PlainLoss(torch.autograd.Function):
    """Loss and its analytic gradient; one utterance at a time where a tensor is as wide as the vocabulary."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, lengths: Lengths, blank: int, fastemit_lambda: float
    ) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        blank_scores = logits.new_empty(logits.shape[:3], dtype=torch.float64)
        label_scores = torch.zeros_like(blank_scores)
        for index, one in enumerate(logits):
            # In float64 from here on: where logits are ten thousands apart, a float32 score has lost its decimals. The
            # largest score is minus the spread alone, and has not.
            spread = -torch.log_softmax(one, dim=-1, dtype=wide).amax(dim=-1).double()
            norm = one.amax(dim=-1).double() + spread
            blank_scores[index] = one[..., blank].double() - norm
            if targets.shape[1]:
                wanted = targets[index, None, :, None].expand(len(one), -1, 1)
                label_scores[index, :, :-1] = one[:, :-1].gather(2, wanted)[..., 0].double() - norm[:, :-1]
        found = posteriors(blank_scores, label_scores, lengths).rounded(wide)
        ctx.save_for_backward(logits, targets, found.blank, found.label)
        ctx.blank, ctx.fastemit_lambda = blank, fastemit_lambda
        return -found.total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        logits, targets, by_blank, by_label = ctx.saved_tensors
        grad = torch.empty_like(logits)
        wide = torch.promote_types(logits.dtype, torch.float32)
        for index, one in enumerate(logits):
            to_blank = -grad_losses[index] * by_blank[index]
            to_label = -grad_losses[index] * (1 + ctx.fastemit_lambda) * by_label[index]
            taken = to_blank + to_label
            # Cells that no path takes have no gradient, whatever stands in them: in padding that may be NaN.
            share = (
                torch.softmax(one, dim=-1, dtype=wide).mul_(-taken[..., None]).masked_fill_(taken[..., None] == 0, 0)
            )
            share[..., ctx.blank] += to_blank
            if targets.shape[1]:
                wanted = targets[index, None, :, None].expand(len(one), -1, 1)
                share[:, :-1].scatter_add_(2, wanted, to_label[:, :-1, None])
            grad[index] = share
        return grad, None, None, None, None
