"""k2's transducer losses, exact and pruned; fast_rnnt has the same functions and is used where k2 is not installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from stopwav.losses.joiner_batch import JoinerBatch

_LIBRARY = import_module("k2" if find_spec("k2") else "fast_rnnt")

# As in training recipes: half of the simple loss is added to the pruned one.
SIMPLE_SCALE = 0.5


def k2_loss(logits: Any, targets: Any, frame_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of the utterances."""
    boundary = _boundary(frame_lengths, target_lengths)
    return _LIBRARY.rnnt_loss(logits, targets, blank, boundary, reduction="none")


class K2PrunedLoss:
    """The simple loss, whose gradients select `range` symbols in each frame, and the exact loss over those alone.

    It has weights of its own, which project encoder and predictor output to the vocabulary; the first batch makes them.
    """

    def __init__(self, range: int) -> None:
        self._range = range
        self._projections: Any = None

    def __call__(self, batch: JoinerBatch) -> Any:
        """The training losses: the pruned losses plus a share of the simple ones."""
        simple, pruned = self._simple_and_pruned(batch, self._range)
        return SIMPLE_SCALE * simple + pruned

    def pruned(self, batch: JoinerBatch) -> Any:
        """The pruned losses alone, which approximate the exact ones."""
        return self._simple_and_pruned(batch, self._range)[1]

    def unpruned(self, batch: JoinerBatch) -> Any:
        """The exact losses: those with a range that leaves nothing out."""
        return self._simple_and_pruned(batch, max(batch.tokens) + 1)[1]

    def _simple_and_pruned(self, batch: JoinerBatch, width: int) -> tuple[Any, Any]:
        boundary = _boundary(batch.frame_lengths, batch.target_lengths)
        with batch.autocast():
            encoder, decoder = (
                project(values)
                for project, values in zip(self._project(batch), (batch.encoder, batch.decoder), strict=True)
            )
        simple, (symbol_grad, blank_grad) = _LIBRARY.rnnt_loss_smoothed(
            lm=_at_least_float32(decoder),
            am=_at_least_float32(encoder),
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
        logits = _at_least_float32(batch.joiner(encoder + decoder))
        pruned = _LIBRARY.rnnt_loss_pruned(logits, batch.targets, ranges, batch.blank, boundary, reduction="none")
        return simple, pruned

    def _project(self, batch: JoinerBatch) -> Any:
        if self._projections is None:
            vocab, dim = batch.weight.shape
            torch.manual_seed(0)
            kind = {"device": batch.encoder.device, "dtype": batch.encoder.dtype}
            self._projections = tuple(torch.nn.Linear(dim, vocab, **kind) for _ in ("encoder", "decoder"))
        return self._projections


def _at_least_float32(values: Any) -> Any:
    """The values, in float32 where they are in half precision, which the library does not support."""
    return values.float() if values.dtype.itemsize < 4 else values


def _boundary(frame_lengths: Any, target_lengths: Any) -> Any:
    """First symbol and frame of every utterance, and one past the last of each."""
    zero = torch.zeros_like(frame_lengths)
    return torch.stack([zero, zero, target_lengths, frame_lengths], dim=1)
