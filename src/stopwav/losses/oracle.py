"""The oracle: the transducer loss in float64, written as its definition reads."""

from __future__ import annotations

from typing import Any


def oracle_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances in float64, one cell after the other."""
    import torch

    scores = logits.double().log_softmax(-1)
    losses = []
    for index in range(len(targets)):
        frames, tokens = int(frame_lengths[index]), int(target_lengths[index])
        ahead: list[Any] = [None] * (tokens + 1)
        for t in range(frames):
            for u in range(tokens + 1):
                ways = []
                if t > 0:
                    ways.append(ahead[u] + scores[index, t - 1, u, blank])
                if u > 0:
                    ways.append(ahead[u - 1] + scores[index, t, u - 1, int(targets[index, u - 1])])
                ahead[u] = torch.logsumexp(torch.stack(ways), 0) if ways else scores.new_zeros(())
        losses.append(-(ahead[tokens] + scores[index, frames - 1, tokens, blank]))
    return torch.stack(losses)
