"""Losses in Numba: warprnnt_numba and NeMo's, which are the same code, and SpeechBrain's."""

from __future__ import annotations

from typing import Any


def warprnnt_numba_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances; the log-softmax is its own on every device."""
    from warprnnt_numba import RNNTLossNumba

    return RNNTLossNumba(blank=blank, reduction="none")(logits, targets, frame_lengths, target_lengths)


def nemo_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    from nemo.collections.asr.parts.numba.rnnt_loss import RNNTLossNumba

    return RNNTLossNumba(blank=blank, reduction="none")(logits, targets, frame_lengths, target_lengths)


def speechbrain_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances, from log-probabilities."""
    try:
        from speechbrain.integrations.numba.transducer_loss import Transducer
    except ImportError:  # up to version 1.0 it lay elsewhere
        from speechbrain.nnet.loss.transducer_loss import Transducer

    return Transducer.apply(logits, targets, frame_lengths, target_lengths, blank, "none")
