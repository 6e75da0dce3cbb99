"""stopwav's own transducer loss in plain PyTorch: one step of the recursion for each anti-diagonal of the lattice."""

from __future__ import annotations

from typing import Any


def plain_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    import torch

    scores = logits.float().log_softmax(-1) if logits.dtype != torch.float64 else logits.log_softmax(-1)
    count, frames, width, _ = scores.shape
    blanks = scores[..., blank]
    index = targets.long().unsqueeze(1).expand(count, frames, width - 1).unsqueeze(-1)
    symbols = scores[:, :, : width - 1].gather(-1, index).squeeze(-1)
    u = torch.arange(width, device=scores.device)
    ends = torch.full((count,), float("-inf"), dtype=scores.dtype, device=scores.device)
    last = frame_lengths.long() - 1 + target_lengths.long()
    alpha = torch.where(u == 0, 0.0, float("-inf")).to(scores).expand(count, width)
    rows = torch.arange(count, device=scores.device)
    for diagonal in range(frames + width - 1):
        if diagonal:
            before = (diagonal - 1 - u).clamp(0, frames - 1)
            stay = alpha + blanks[:, before, u]
            here = (diagonal - u[1:]).clamp(0, frames - 1)
            step = alpha[:, :-1] + symbols[:, here, u[:-1]]
            up = torch.cat([step.new_full((count, 1), float("-inf")), step], 1)
            valid = (diagonal - u >= 0) & (diagonal - u < frames)
            stay = torch.where(valid & (diagonal - u > 0), stay, float("-inf"))
            up = torch.where(valid, up, float("-inf"))
            # The difference of two infinities has no gradient: the larger is put in its place first.
            both = torch.isneginf(stay) & torch.isneginf(up)
            joined = torch.logaddexp(torch.where(both, 0.0, stay), torch.where(both, 0.0, up))
            alpha = torch.where(both, float("-inf"), joined)
        done = last == diagonal
        reached = alpha[rows, target_lengths.long()]
        ends = torch.where(done, reached, ends)
    return -(ends + blanks[rows, frame_lengths.long() - 1, target_lengths.long()])
