"""k2's transducer losses, exact and pruned; fast_rnnt has the same functions and is taken where k2 is absent."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from stopwav.errors import StopwavError
from stopwav.losses.joiner_batch import JoinerBatch

_LIBRARY = import_module("k2" if find_spec("k2") else "fast_rnnt")

# What recipes train with: half of the simple loss beside the pruned one.
SIMPLE_SCALE = 0.5


def k2_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    boundary = _boundary(frame_lengths, target_lengths)
    return _LIBRARY.rnnt_loss(logits, targets, blank, boundary, reduction="none")


class PrunedLoss:
    """The simple loss, whose gradients choose `range` symbols a frame, and the exact loss over those alone.

    The projections of encoder and predictor to the vocabulary are weights of its own, made with the first batch.
    """

    def __init__(self, range: int = 5) -> None:
        if not isinstance(range, int) or range < 2:
            raise StopwavError(f"k2-pruned,range={range}: give a whole number from 2; recipes take 5")
        self._range = range
        self._projections: Any = None

    def __call__(self, batch: JoinerBatch) -> Any:
        """The losses to be minimised: those that are pruned, and a share of the simple ones."""
        simple, pruned = self._both(batch, self._range)
        return SIMPLE_SCALE * simple + pruned

    def pruned(self, batch: JoinerBatch) -> Any:
        """The losses that approximate the exact ones."""
        return self._both(batch, self._range)[1]

    def unpruned(self, batch: JoinerBatch) -> Any:
        """The losses with a range that leaves nothing out: the exact ones."""
        return self._both(batch, max(batch.tokens) + 1)[1]

    def _both(self, batch: JoinerBatch, width: int) -> tuple[Any, Any]:
        boundary = _boundary(batch.frame_lengths, batch.target_lengths)
        with batch.autocast():
            encoder, decoder = (
                project(values)
                for project, values in zip(self._project(batch), (batch.encoder, batch.decoder), strict=True)
            )
        simple, (symbol_grad, blank_grad) = _LIBRARY.rnnt_loss_smoothed(
            lm=_whole(decoder),
            am=_whole(encoder),
            symbols=batch.targets,
            termination_symbol=batch.blank,
            lm_only_scale=0.0,
            am_only_scale=0.0,
            boundary=boundary,
            reduction="none",
            return_grad=True,
        )
        ranges = _LIBRARY.get_rnnt_prune_ranges(symbol_grad, blank_grad, boundary, width)
        encoder, decoder = _LIBRARY.do_rnnt_pruning(batch.encoder, batch.decoder, ranges)
        logits = _whole(batch.joiner(encoder + decoder))
        pruned = _LIBRARY.rnnt_loss_pruned(logits, batch.targets, ranges, batch.blank, boundary, reduction="none")
        return simple, pruned

    def _project(self, batch: JoinerBatch) -> Any:
        if self._projections is None:
            vocab, dim = batch.weight.shape
            torch.manual_seed(0)
            place = {"device": batch.encoder.device, "dtype": batch.encoder.dtype}
            self._projections = tuple(torch.nn.Linear(dim, vocab, **place) for _ in "ab")
        return self._projections


def _whole(values: Any) -> Any:
    """The values in float32 where they are in half precision, which the library does not take."""
    return values.float() if values.dtype.itemsize < 4 else values


def _boundary(frame_lengths: Any, target_lengths: Any) -> Any:
    """First symbol and frame, and one past the last of each, of every utterance."""
    zero = torch.zeros_like(frame_lengths)
    return torch.stack([zero, zero, target_lengths, frame_lengths], dim=1)
