"""One implementation of the transducer loss: the inputs it needs, and the call that gives them to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.errors import StopwavError
from stopwav.losses.joiner_batch import JoinerBatch, packed_logits, padded_logits

# logits, targets, frame lengths, target lengths, blank → losses of the utterances, or their sum.
LogitLoss = Callable[[Any, Any, Any, Any, int], Any]
# The same from a batch, by an implementation that computes the joiner itself.
BatchLoss = Callable[[JoinerBatch], Any]


@dataclass(frozen=True)
class Needs:
    """The inputs that an implementation needs.

    `logits` is `padded` (B, T, U + 1, V), `packed` (real cells only), or `joiner`: the implementation computes the
    joiner itself and takes the whole `JoinerBatch`.
    """

    logits: Literal["padded", "packed", "joiner"] = "padded"
    log_softmax: Literal["inside", "outside"] = "inside"
    integers: Literal["int32", "int64"] = "int64"
    # Supported types of logits; others are cast to float32 first, and the cast counts as part of its cost.
    dtypes: tuple[str, ...] = ("float32", "float64")
    devices: tuple[str, ...] = ("cpu", "cuda")
    # Whether gradients are computed with the loss, into the memory of the logits where possible.
    in_place_gradients: bool = False
    # How paths are left out of the sum; empty for an exact loss.
    pruned: str = ""
    # The most logits it supports, padded or packed as it holds them, where its offsets have too few bits: with more it
    # dies, or is wrong without an error.
    max_logits: int | None = None
    # What the adapter puts right in what the package returns.
    corrected: str = ""

    def description(self) -> str:
        """The needs in one line."""
        parts = [
            "joiner and loss in one" if self.logits == "joiner" and not self.pruned else f"{self.logits} logits",
            f"log-softmax {self.log_softmax}",
            self.integers,
        ]
        if self.pruned:
            parts[0] = self.pruned
        if self.in_place_gradients:
            parts.append("gradients in place")
        if len(self.devices) == 1:
            parts.append(f"{self.devices[0]} only")
        if self.max_logits is not None:
            parts.append(f"at most {self.max_logits:,} logits")
        if self.corrected:
            parts.append(self.corrected)
        return ", ".join(parts)

    def logit_count(self, batch: JoinerBatch) -> int:
        """The logits that it holds for a batch; 0 where it computes the joiner itself."""
        if self.logits == "joiner":
            return 0
        if self.logits == "packed":
            cells = sum(frames * (tokens + 1) for frames, tokens in zip(batch.frames, batch.tokens, strict=True))
        else:
            cells = batch.encoder.shape[:2].numel() * batch.decoder.shape[1]
        return cells * len(batch.weight)


@dataclass(frozen=True)
class Implementation:
    """A loss that is loaded and can be called with a batch."""

    name: str
    version: str
    needs: Needs
    function: LogitLoss | BatchLoss
    # Of a pruned loss: the part that approximates the exact loss, and the same without pruning.
    pruned: BatchLoss | None = None
    unpruned: BatchLoss | None = None

    def losses(self, batch: JoinerBatch) -> Any:
        """Compute the joiner and the losses of a batch, or their sum where the implementation returns only that."""
        function: Callable[..., Any] = self.function
        if self.needs.logits == "joiner":
            return function(batch)
        self._check_logit_count(batch)
        logits = padded_logits(batch) if self.needs.logits == "padded" else packed_logits(batch)
        if str(logits.dtype).removeprefix("torch.") not in self.needs.dtypes:
            logits = logits.float()
        if self.needs.log_softmax == "outside":
            logits = logits.log_softmax(-1)
        return function(logits, batch.targets, batch.frame_lengths, batch.target_lengths, batch.blank)

    def _check_logit_count(self, batch: JoinerBatch) -> None:
        """Refuse a batch with more logits than the implementation supports, before they are computed."""
        limit, count = self.needs.max_logits, self.needs.logit_count(batch)
        if limit is not None and count > limit:
            raise StopwavError(
                f"{self.name} supports at most {limit:,} logits and would die, or be wrong without an error, on a "
                f"batch with {count:,}: use smaller batches or a smaller vocabulary"
            )
