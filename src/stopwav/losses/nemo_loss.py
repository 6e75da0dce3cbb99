"""NeMo's transducer loss in Numba, from which warprnnt_numba was taken."""

from __future__ import annotations

from typing import Any

from nemo.collections.asr.parts.numba.rnnt_loss import RNNTLossNumba


def nemo_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    return RNNTLossNumba(blank=blank, reduction="none")(logits, targets, frame_lengths, target_lengths)
