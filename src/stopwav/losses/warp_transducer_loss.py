"""warp-transducer: padded logits; its own wrapper takes the log-softmax on the CPU, its kernels do on CUDA."""

from __future__ import annotations

from typing import Any

from warprnnt_pytorch import rnnt_loss


def warp_transducer_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    return rnnt_loss(logits, targets, frame_lengths, target_lengths, blank=blank, reduction="none")
