"""The blank's log-probability and the likeliest symbols of many texts at once, of the joiner's logits."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def best_symbols(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probability of the blank, which is last, and of the likeliest symbols, and these, best first."""
    if logits.is_cuda and has_kernel():
        from stopwav.models.best_symbols_kernel import best_symbols_by_kernel

        return best_symbols_by_kernel(logits, count)
    return best_symbols_by_sorting(logits, count)


def best_symbols_by_sorting(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same by PyTorch's functions, which read the logits many times."""
    scores = logits.float().log_softmax(-1)
    best, symbols = scores[:, :-1].topk(count)
    return scores[:, -1], best, symbols


@lru_cache
def has_kernel() -> bool:
    """Whether the kernel compiles for this GPU and gives what PyTorch gives; Triton needs a C compiler too."""
    try:
        from stopwav.models.best_symbols_kernel import best_symbols_by_kernel

        logits = torch.randn(7, 300, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
        ours, theirs = best_symbols_by_kernel(logits, 10), best_symbols_by_sorting(logits, 10)
        return all(torch.allclose(own, their, atol=1e-5) for own, their in zip(ours, theirs, strict=True))
    except Exception:  # a missing compiler or package raises errors of any kind
        return False
