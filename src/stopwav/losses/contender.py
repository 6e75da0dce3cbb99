"""A loss as it takes part: what it needs, and how a batch is fed to it as its authors intend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.errors import StopwavError
from stopwav.losses.joiner_batch import JoinerBatch, packed_logits, padded_logits


@dataclass(frozen=True)
class Needs:
    """What a loss wants to be given, stated by its adapter.

    `logits` is `padded` (B, T, U + 1, V), `packed` (real cells alone), or `joiner`: the loss has a way of its own
    with the joiner and takes the whole `JoinerBatch`.
    """

    logits: Literal["padded", "packed", "joiner"] = "padded"
    log_softmax: Literal["inside", "outside"] = "inside"
    integers: Literal["int32", "int64"] = "int64"
    # Types of logits it takes; others are cast to float32 first, which is part of what it costs.
    dtypes: tuple[str, ...] = ("float32", "float64")
    devices: tuple[str, ...] = ("cpu", "cuda")
    # Whether the gradient is computed with the loss, into the memory of the logits where it can.
    in_place_gradients: bool = False
    # What is left out of the sum over paths; empty for an exact loss.
    pruned: str = ""
    # How many logits of a padded batch it can count, where it counts in too few bits: with more it may be wrong.
    most_logits: int | None = None

    def told(self) -> str:
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
        if self.most_logits is not None:
            parts.append(f"at most {self.most_logits:,} logits")
        return ", ".join(parts)


# logits, targets, frame lengths, target lengths, blank → losses of the utterances, or their sum.
LogitLoss = Callable[[Any, Any, Any, Any, int], Any]


@dataclass(frozen=True)
class Contender:
    """A loss, ready to be called with a batch."""

    name: str
    version: str
    needs: Needs
    # A `LogitLoss`, or for `joiner` a function of the batch.
    function: Callable[..., Any]
    # Of a pruned loss: the part that approximates the exact loss, and the same with nothing left out.
    pruned: Callable[[JoinerBatch], Any] | None = None
    unpruned: Callable[[JoinerBatch], Any] | None = None

    def losses(self, batch: JoinerBatch) -> Any:
        """The losses of a batch, or their sum where the implementation gives no more; the joiner is part of it."""
        if self.needs.logits == "joiner":
            return self.function(batch)
        if self.needs.logits == "padded":
            self._check_count(batch)
        logits = padded_logits(batch) if self.needs.logits == "padded" else packed_logits(batch)
        if str(logits.dtype).removeprefix("torch.") not in self.needs.dtypes:
            logits = logits.float()
        if self.needs.log_softmax == "outside":
            logits = logits.log_softmax(-1)
        return self.function(logits, batch.targets, batch.frame_lengths, batch.target_lengths, batch.blank)

    def _check_count(self, batch: JoinerBatch) -> None:
        """Refuse a batch of more padded logits than the loss counts, before they are made."""
        most = self.needs.most_logits
        count = batch.encoder.shape[:2].numel() * batch.decoder.shape[1] * len(batch.weight)
        if most is not None and count > most:
            raise StopwavError(
                f"{self.name} counts at most {most:,} logits, and a batch with {count:,} would come out wrong without "
                "an error: make batches or the vocabulary smaller"
            )
