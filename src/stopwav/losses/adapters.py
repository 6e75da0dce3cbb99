"""Adapters: each imports one implementation when it is called, and returns its loss as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stopwav.errors import StopwavError
from stopwav.losses.implementation import BatchLoss, LogitLoss
from stopwav.losses.joiner_batch import JoinerBatch


def oracle() -> LogitLoss:
    """The float64 oracle."""
    from stopwav.losses.oracle import oracle_loss

    return oracle_loss


def plain() -> LogitLoss:
    """stopwav's loss in plain PyTorch."""
    from stopwav.losses.oracle import plain_loss

    return plain_loss


def fused() -> BatchLoss:
    """stopwav's fused loss, with the lengths on the host, so that padding costs nothing."""
    from stopwav.losses.fused import transducer_loss

    def loss(batch: JoinerBatch) -> Any:
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

    return loss


def k2() -> LogitLoss:
    """k2's exact loss, or fast_rnnt's."""
    from stopwav.losses.k2_loss import k2_loss

    return k2_loss


def k2_pruned(range: int = 5) -> BatchLoss:
    """k2's simple and pruned loss, or fast_rnnt's; `range` symbols are kept in each frame."""
    if not isinstance(range, int) or range < 2:
        raise StopwavError(f"k2-pruned,range={range}: give a whole number from 2; recipes use 5")
    from stopwav.losses.k2_loss import K2PrunedLoss

    return K2PrunedLoss(range)


def torchaudio() -> LogitLoss:
    """torchaudio's loss."""
    from torchaudio.functional import rnnt_loss

    return _blank_by_name(rnnt_loss, reduction="none")


def optimized_transducer() -> LogitLoss:
    """optimized_transducer's loss, which returns the sum over utterances and writes its gradients over the logits."""
    from optimized_transducer import transducer_loss

    def loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
        return transducer_loss(
            logits=logits,
            targets=targets,
            logit_lengths=frame_lengths,
            target_lengths=target_lengths,
            blank=blank,
            reduction="sum",
            from_log_softmax=False,
        )

    return loss


def warp_transducer() -> LogitLoss:
    """warp-transducer's loss: its wrapper computes the log-softmax on the CPU, its kernels do on CUDA."""
    from warprnnt_pytorch import rnnt_loss

    return _blank_by_name(rnnt_loss, reduction="none")


def warp_rnnt() -> LogitLoss:
    """warp-rnnt's loss, from padded log-probabilities."""
    from warp_rnnt import rnnt_loss

    return _blank_by_name(rnnt_loss)


def warp_rnnt_gather() -> LogitLoss:
    """warp-rnnt's loss, which gathers only blank and target from the padded log-probabilities."""
    from warp_rnnt import rnnt_loss

    return _blank_by_name(rnnt_loss, gather=True)


def warp_rnnt_compact() -> LogitLoss:
    """warp-rnnt's loss, from packed log-probabilities and packed targets."""
    import torch
    from warp_rnnt import rnnt_loss

    def loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
        positions = torch.arange(targets.shape[1], device=targets.device)
        packed = targets[positions < target_lengths.unsqueeze(1)]
        return rnnt_loss(logits, packed, frame_lengths, target_lengths, blank=blank, compact=True)

    return loss


def warprnnt_numba() -> LogitLoss:
    """warprnnt_numba's loss, which was taken from NeMo's."""
    from warprnnt_numba import RNNTLossNumba

    return _blank_of_module(RNNTLossNumba)


def nemo() -> LogitLoss:
    """NeMo's loss in Numba."""
    from nemo.collections.asr.parts.numba.rnnt_loss import RNNTLossNumba

    return _blank_of_module(RNNTLossNumba)


def speechbrain() -> LogitLoss:
    """SpeechBrain's loss in Numba, from log-probabilities.

    Its value is divided by the number of frames and its gradient is not: the value is multiplied by them here.
    """
    try:
        from speechbrain.integrations.numba.transducer_loss import Transducer
    except ImportError:  # its place up to version 1.0
        from speechbrain.nnet.loss.transducer_loss import Transducer

    def loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
        losses = Transducer.apply(logits, targets, frame_lengths, target_lengths, blank, "none")
        return losses + (losses * (frame_lengths - 1)).detach()

    return loss


def _blank_by_name(rnnt_loss: Callable[..., Any], **options: Any) -> LogitLoss:
    """Adapt a function that takes the blank by name."""

    def loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
        return rnnt_loss(logits, targets, frame_lengths, target_lengths, blank=blank, **options)

    return loss


def _blank_of_module(module: Callable[..., Any]) -> LogitLoss:
    """Adapt a module class that takes the blank when it is made."""

    def loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
        return module(blank=blank, reduction="none")(logits, targets, frame_lengths, target_lengths)

    return loss
