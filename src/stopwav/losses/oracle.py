"""The transducer loss by its definition, in float64 and one cell at a time: slow, and obviously right.

An utterance has T frames and U labels. A path starts before the first frame and the first label; at each cell (t, u) it
either emits the blank and moves to the next frame, or emits the next label and stays in the frame; it ends with the
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
