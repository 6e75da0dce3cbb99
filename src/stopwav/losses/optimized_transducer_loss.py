"""optimized_transducer: packed logits, whose memory its gradients take over."""

from __future__ import annotations

from typing import Any

from optimized_transducer import transducer_loss


def optimized_transducer_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The sum of the losses: it gives none of the single utterances."""
    return transducer_loss(
        logits=logits,
        targets=targets,
        logit_lengths=frame_lengths,
        target_lengths=target_lengths,
        blank=blank,
        reduction="sum",
        from_log_softmax=False,
    )
