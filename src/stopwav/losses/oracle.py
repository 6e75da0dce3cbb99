"""The transducer loss by its definition, in float64 and one cell at a time: slow, and obviously right.

An utterance has T frames and U labels. A path starts before the first frame and the first label; at each cell (t, u) it
either emits the blank and moves to the next frame, or emits the next label and stays in the frame; it ends with the
blank of the last frame after the last label. The loss is minus the logarithm of the summed probability of all paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stopwav.errors import StopwavError
from stopwav.losses.lengths import Lengths, Reduction, checked_lengths, checked_targets, reduced
from stopwav.losses.recursion import posteriors


def oracle_loss(
    logits: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    fastemit_lambda: float = 0.0,
) -> Tensor:
    """-log p of every utterance in float64, differentiable in the logits, `(batch, frames, labels + 1, symbols)`."""
    scores = logits.double().log_softmax(dim=-1)
    lengths = zip(_numbers(frame_lengths), _numbers(target_lengths), strict=True)
    return torch.stack(
        [
            -_path_sum(scores[n, :frames, : labels + 1], targets[n, :labels].tolist(), blank, fastemit_lambda)
            for n, (frames, labels) in enumerate(lengths)
        ]
    )


def oracle_logits(
    encoder_out: Tensor, predictor_out: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "tanh"
) -> Tensor:
    """The joiner's logits in float64: a linear layer of the activation of encoder + predictor, for all cells."""
    hidden = encoder_out.double()[:, :, None] + predictor_out.double()[:, None]
    active = hidden if activation == "none" else {"tanh": torch.tanh, "relu": torch.relu}[activation](hidden)
    logits = active @ weight.double().T
    return logits if bias is None else logits + bias.double()


def _path_sum(scores: Tensor, labels: list[int], blank: int, fastemit_lambda: float) -> Tensor:
    """The logarithm of the summed probability of all paths, from one utterance's log-probabilities."""
    frames = len(scores)
    # Split into cells once: the gradient of an indexed cell would be as large as the whole tensor.
    blanks = _cells(scores[:, :, blank])
    emitted = _cells(scores[:, torch.arange(len(labels)), labels])
    alpha: dict[tuple[int, int], Tensor] = {}
    for t in range(frames):
        for u in range(len(labels) + 1):
            incoming = [] if t or u else [scores.new_zeros(())]
            if t > 0:
                incoming.append(alpha[t - 1, u] + blanks[t - 1][u])
            if u > 0:
                incoming.append(alpha[t, u - 1] + _with_fastemit(emitted[t][u - 1], fastemit_lambda))
            alpha[t, u] = torch.logsumexp(torch.stack(incoming), dim=0)
    return alpha[frames - 1, len(labels)] + blanks[frames - 1][len(labels)]


def _cells(scores: Tensor) -> list[Sequence[Tensor]]:
    """The entries of a matrix as separate tensors, by row and column."""
    return [row.unbind() for row in scores.unbind()]


def _with_fastemit(score: Tensor, fastemit_lambda: float) -> Tensor:
    """The same score with a gradient 1 + lambda times as large, which is how FastEmit rewards labels."""
    return score + fastemit_lambda * (score - score.detach())


def _numbers(lengths: Tensor | Sequence[int]) -> list[int]:
    return [int(length) for length in lengths]


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
