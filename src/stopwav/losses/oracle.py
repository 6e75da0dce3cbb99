"""The transducer loss as its definition reads, in float64 and one cell at a time: slow, and obviously right.

An utterance has T frames and U labels. A path starts before the first frame and the first label; at each cell (t, u) it
either takes the blank and goes on to the next frame, or takes the next label and stays in the frame; it ends with the
blank of the last frame after the last label. The loss is minus the logarithm of the summed probability of all paths.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


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
    """The logits of all pairs of a frame and a text, in float64: activation of the sum, then a linear layer."""
    hidden = encoder_out.double()[:, :, None] + predictor_out.double()[:, None]
    active = hidden if activation == "none" else {"tanh": torch.tanh, "relu": torch.relu}[activation](hidden)
    logits = active @ weight.double().T
    return logits if bias is None else logits + bias.double()


def _path_sum(scores: Tensor, labels: list[int], blank: int, fastemit_lambda: float) -> Tensor:
    """The logarithm of the summed probability of all paths, from one utterance's log-probabilities."""
    frames = len(scores)
    # Taken apart once: the gradient of a single cell, taken from the whole, would be as large as the whole.
    blanks = _cells(scores[:, :, blank])
    taken = _cells(scores[:, torch.arange(len(labels)), labels])
    alpha: dict[tuple[int, int], Tensor] = {}
    for t in range(frames):
        for u in range(len(labels) + 1):
            ways = [] if t or u else [scores.new_zeros(())]
            if t > 0:
                ways.append(alpha[t - 1, u] + blanks[t - 1][u])
            if u > 0:
                ways.append(alpha[t, u - 1] + _hastened(taken[t][u - 1], fastemit_lambda))
            alpha[t, u] = torch.logsumexp(torch.stack(ways), dim=0)
    return alpha[frames - 1, len(labels)] + blanks[frames - 1][len(labels)]


def _cells(scores: Tensor) -> list[Sequence[Tensor]]:
    """Every entry of a matrix as a tensor of its own, by row and column."""
    return [row.unbind() for row in scores.unbind()]


def _hastened(score: Tensor, fastemit_lambda: float) -> Tensor:
    """The same score, with a gradient that is 1 + lambda times as large: FastEmit's reward for emitting a label."""
    return score + fastemit_lambda * (score - score.detach())


def _numbers(lengths: Tensor | Sequence[int]) -> list[int]:
    return [int(one) for one in lengths]
