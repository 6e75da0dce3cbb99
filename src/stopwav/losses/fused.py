"""Joiner and transducer loss in one call."""

from __future__ import annotations

from typing import Any

from stopwav.losses.plain import plain_loss


def transducer_loss(
    encoder_out: Any,
    predictor_out: Any,
    weight: Any,
    bias: Any,
    targets: Any,
    frame_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    precision: str | None = None,
) -> Any:
    """The losses of the utterances, from materialised logits."""
    import torch

    hidden = torch.tanh(encoder_out.unsqueeze(2) + predictor_out.unsqueeze(1))
    logits = torch.nn.functional.linear(hidden, weight, bias)
    frames, tokens = (torch.as_tensor(one, device=logits.device) for one in (frame_lengths, target_lengths))
    return plain_loss(logits, targets, frames, tokens, blank)
