"""warprnnt_numba: padded logits; the log-softmax is its own on every device."""

from __future__ import annotations

from typing import Any

from warprnnt_numba import RNNTLossNumba


def warprnnt_numba_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    return RNNTLossNumba(blank=blank, reduction="none")(logits, targets, frame_lengths, target_lengths)
