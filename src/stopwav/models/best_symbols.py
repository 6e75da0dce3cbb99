"""The blank's log-probability and the likeliest symbols of many texts at once, of the joiner's logits."""

from __future__ import annotations

from torch import Tensor


def best_symbols(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probability of the blank, which is last, and of the likeliest symbols, and these, best first."""
    scores = logits.float().log_softmax(-1)
    best, symbols = scores[:, :-1].topk(count)
    return scores[:, -1], best, symbols
