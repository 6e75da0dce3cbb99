"""torchaudio's transducer loss: padded logits, log-softmax fused into it."""

from __future__ import annotations

from typing import Any

from torchaudio.functional import rnnt_loss


def torchaudio_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    return rnnt_loss(logits, targets, frame_lengths, target_lengths, blank=blank, reduction="none")
