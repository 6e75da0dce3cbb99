"""warp-rnnt in its three ways: padded log-probabilities, only those that the loss needs, and packed ones. CUDA only."""

from __future__ import annotations

from typing import Any

import torch
from warp_rnnt import rnnt_loss


def warp_rnnt_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances, from padded log-probabilities."""
    return rnnt_loss(logits, targets, frame_lengths, target_lengths, blank=blank)


def warp_rnnt_gather_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances; only blank and target are gathered from the log-probabilities."""
    return rnnt_loss(logits, targets, frame_lengths, target_lengths, blank=blank, gather=True)


def warp_rnnt_compact_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances, from packed log-probabilities and targets."""
    places = torch.arange(targets.shape[1], device=targets.device)
    packed = targets[places < target_lengths.unsqueeze(1)]
    return rnnt_loss(logits, packed, frame_lengths, target_lengths, blank=blank, compact=True)
