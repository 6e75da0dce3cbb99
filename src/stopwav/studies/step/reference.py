"""The reference of the step study: a Conformer transducer, batches of real shapes, and a choice of loss."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.measure.training_step import TrainingBatch

if TYPE_CHECKING:
    from stopwav.models.scaled import ConformerTransducer, Encoded
    from stopwav.speech.batches import Batch

NAME = "conformer-transducer"
PRUNED, FUSED = "pruned", "fused"
# Places of the lattice that a frame keeps: the recipe's.
PRUNE_RANGE = 5
# Weight of the simple loss, added to the pruned one: the recipe's.
SIMPLE_SCALE = 0.5


@dataclass(frozen=True)
class Targets:
    """The tokens on the device; their count and that of encoder frames on the host, where nothing waits for them."""

    tokens: Any
    token_lengths: Any
    frame_lengths: Any


@dataclass(frozen=True)
class Sizes:
    """The options of the reference; the defaults are its own sizes."""

    layers: int = 12
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    kernel: int = 31
    symbols: int = 500
    loss: str = PRUNED

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "feed_forward", "kernel", "symbols"):
            number, least = getattr(self, name), 2 if name == "symbols" else 1
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise StopwavError(f"{NAME},{name}={number}: give a whole number, at least {least}")
        if self.kernel % 2 == 0:
            raise StopwavError(f"{NAME},kernel={self.kernel}: give an odd number")
        # Sines and cosines come in pairs, and every head has its share of the width.
        if self.width % 2 or self.width % self.heads:
            raise StopwavError(f"{NAME}: width {self.width} is not an even multiple of heads {self.heads}")
        if self.loss not in (PRUNED, FUSED):
            raise StopwavError(f"{NAME},loss={self.loss}: give {PRUNED} or {FUSED}")


def parse_sizes(options: dict[str, Any]) -> Sizes:
    """Return the sizes that options describe, or raise an error that says what is wrong with them."""
    known = [field.name for field in fields(Sizes)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise StopwavError(f"{NAME}: unknown option {unknown[0]!r}; it takes {', '.join(known)}")
    return Sizes(**options)


def make_model(sizes: Sizes) -> ConformerTransducer:
    """Return the model of these sizes."""
    from stopwav.models.scaled import ConformerTransducer, EncoderShape, TransducerShape

    encoder = EncoderShape(
        width=sizes.width,
        heads=sizes.heads,
        feed_forward=sizes.feed_forward,
        kernel=sizes.kernel,
        layers=sizes.layers,
    )
    return ConformerTransducer(TransducerShape(encoder, sizes.symbols))


class Criterion:
    """The loss of a batch: half the simple loss and the pruned one, or the exact one without either."""

    def __init__(self, model: Any, loss: str) -> None:
        self._joiner, self._loss = model.joiner, loss

    def __call__(self, output: Encoded, targets: Targets) -> Any:
        """Return the mean over utterances."""
        return self._fused(output, targets) if self._loss == FUSED else self._pruned(output, targets)

    def _pruned(self, output: Encoded, targets: Targets) -> Any:
        from stopwav.losses.pruned import kept_positions, kept_predictions, prune_starts, pruned_loss, simple_loss

        lengths = targets.frame_lengths, targets.token_lengths
        with stage("rnnt_loss_simple"):
            assert output.simple_encodings is not None
            assert output.simple_predictions is not None
            simple = simple_loss(output.simple_encodings, output.simple_predictions, targets.tokens, *lengths)
        with stage("rnnt_prune"):
            width = min(PRUNE_RANGE, output.predictions.shape[1])
            starts = prune_starts(simple.blank_posteriors, simple.label_posteriors, *lengths, width)
            positions = kept_positions(starts, width)
        encodings = self._joiner.encoder_proj(output.encodings)
        predictions = kept_predictions(self._joiner.predictor_proj(output.predictions), positions)
        logits = self._joiner(encodings[:, :, None], predictions)
        with stage("rnnt_loss_pruned"):
            pruned = pruned_loss(logits, positions, targets.tokens, *lengths)
        return SIMPLE_SCALE * simple.losses.mean() + pruned

    def _fused(self, output: Encoded, targets: Targets) -> Any:
        from stopwav.losses import transducer_loss

        joiner = self._joiner
        encodings, predictions = joiner.encoder_proj(output.encodings), joiner.predictor_proj(output.predictions)
        weight, bias = joiner.output.scaled_weight(), joiner.output.scaled_bias()
        with stage("rnnt_loss_fused"):
            return transducer_loss(
                encodings, predictions, weight, bias, targets.tokens, targets.frame_lengths, targets.token_lengths
            )


class Feeder:
    """Batches of random features of real shapes, made beforehand; in its data phase a step copies one to the device."""

    def __init__(self, batches: list[Batch], device: str, dtype: Any, sizes: Sizes, bands: int, seed: int) -> None:
        self._device, self._simple = device, sizes.loss == PRUNED
        self._batches = [
            _draw(batch, sizes.symbols, bands, seed + index, device, dtype) for index, batch in enumerate(batches)
        ]

    def __call__(self, index: int) -> TrainingBatch:
        """Return the batch of that number."""
        features, frames, tokens, token_lengths = self._batches[index % len(self._batches)]
        on_device = [tensor.to(self._device, non_blocking=True) for tensor in (features, frames, tokens)]
        from stopwav.models.conformer import subsampled

        return TrainingBatch(
            inputs=(*on_device, self._simple),
            targets=Targets(on_device[2], token_lengths, subsampled(frames)),
            utterances=len(frames),
            real_frames=int(frames.sum()),
            padded_frames=features.shape[0] * features.shape[1],
        )


def _draw(batch: Batch, symbols: int, bands: int, seed: int, device: str, dtype: Any) -> tuple[Any, ...]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    frames, counts = torch.tensor(batch.frames), torch.tensor(batch.tokens)
    features = torch.randn(len(frames), int(frames.max()), bands, generator=generator)
    features[torch.arange(features.shape[1]) >= frames[:, None]] = 0.0
    features = features.to(dtype)
    tokens = torch.randint(1, symbols, (len(frames), int(counts.max())), generator=generator)
    if device.startswith("cuda"):
        # Pinned memory is copied while the device computes.
        features, tokens = features.pin_memory(), tokens.pin_memory()
    return features, frames, tokens, counts
