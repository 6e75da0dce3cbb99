"""SpeechBrain's transducer loss in Numba, from log-probabilities."""

from __future__ import annotations

from typing import Any

try:
    from speechbrain.integrations.numba.transducer_loss import Transducer
except ImportError:  # up to version 1.0 it lay elsewhere
    from speechbrain.nnet.loss.transducer_loss import Transducer


def speechbrain_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    return Transducer.apply(logits, targets, frame_lengths, target_lengths, blank, "none")
