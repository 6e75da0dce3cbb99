"""stopwav's fused loss as a contender: it takes what the joiner would be given, in the joiner's precision."""

from __future__ import annotations

from typing import Any

from stopwav.losses.fused import transducer_loss
from stopwav.losses.joiner_batch import JoinerBatch


def fused_contender(batch: JoinerBatch) -> Any:
    """The losses of the utterances; lengths are given as the host has them, so that padding costs nothing."""
    return transducer_loss(
        batch.encoder,
        batch.decoder,
        batch.weight,
        batch.bias,
        batch.targets,
        batch.frames,
        batch.tokens,
        blank=batch.blank,
        reduction="none",
        precision=batch.precision,  # type: ignore[arg-type]  # checked where the batch was made
    )
