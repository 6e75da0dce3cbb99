"""The inputs of every loss with their lengths checked, and the joiner: tanh(encoder + predictor), then linear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from stopwav.errors import StopwavError

# The precisions in which the joiner can compute; bfloat16 and float16 by autocast.
PRECISIONS = ("float32", "tf32", "bfloat16", "float16", "float64")


@dataclass(frozen=True)
class JoinerBatch:
    """The inputs of the joiner for one batch: padded outputs of encoder and predictor, its weights, and the targets.

    `encoder` is (B, T, D), `decoder` (B, U + 1, D), `weight` (V, D), `bias` (V,), `targets` (B, U); the first four
    require gradients. Lengths are those before padding, on the same device.
    """

    encoder: Any
    decoder: Any
    weight: Any
    bias: Any
    targets: Any
    frame_lengths: Any
    target_lengths: Any
    # The same lengths on the host, where a training loop has them too: packing needs them there.
    frames: tuple[int, ...]
    tokens: tuple[int, ...]
    blank: int
    precision: str = "float32"

    @property
    def leaves(self) -> dict[str, Any]:
        """The tensors that require gradients, by name."""
        return {"encoder": self.encoder, "decoder": self.decoder, "weight": self.weight, "bias": self.bias}

    def joiner(self, hidden: Any) -> Any:
        """The logits of sums of encoder and predictor output, in the precision of the batch."""
        import torch

        with self.autocast():
            return torch.nn.functional.linear(torch.tanh(hidden), self.weight, self.bias)

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which the joiner computes: autocast for half precision, or else one that does nothing."""
        import torch

        if self.precision not in ("bfloat16", "float16"):
            return nullcontext()
        return torch.autocast(self.encoder.device.type, dtype=getattr(torch, self.precision))


def padded_logits(batch: JoinerBatch) -> Any:
    """The logits of every cell, padding included: (B, T, U + 1, V)."""
    return batch.joiner(batch.encoder.unsqueeze(2) + batch.decoder.unsqueeze(1))


def packed_logits(batch: JoinerBatch) -> Any:
    """The logits of the real cells alone, one utterance after the other: (sum of T · (U + 1), V)."""
    import torch

    return batch.joiner(torch.cat(list(_hidden_by_utterance(batch))))


def _hidden_by_utterance(batch: JoinerBatch) -> Iterator[Any]:
    for index, (frames, tokens) in enumerate(zip(batch.frames, batch.tokens, strict=True)):
        encoder, decoder = batch.encoder[index, :frames], batch.decoder[index, : tokens + 1]
        yield (encoder.unsqueeze(1) + decoder.unsqueeze(0)).flatten(0, 1)


def make_joiner_batch(
    frames: tuple[int, ...],
    tokens: tuple[int, ...],
    *,
    vocab: int,
    dim: int,
    blank: int = 0,
    precision: str = "float32",
    device: str = "cpu",
    integers: str = "int64",
    seed: int = 0,
) -> JoinerBatch:
    """Make a batch of random outputs and targets of these shapes, with the same numbers for every loss."""
    import torch

    if precision not in PRECISIONS:
        raise StopwavError(f"--dtype {precision!r}: give one of {', '.join(PRECISIONS)}")
    if not 0 <= blank < vocab:
        raise StopwavError(f"--blank {blank}: must be one of the {vocab} symbols of --vocab")
    random = torch.Generator().manual_seed(seed)
    dtype = torch.float64 if precision == "float64" else torch.float32
    integer_dtype = getattr(torch, integers)

    def draw(*shape: int, scale: float = 1.0) -> Any:
        # Drawn in float32 on the host: the same numbers on every device and in every precision.
        values = scale * torch.randn(*shape, generator=random)
        return values.to(device=device, dtype=dtype).requires_grad_()

    count, max_frames, max_tokens = len(frames), max(frames), max(tokens)
    encoder, decoder = draw(count, max_frames, dim), draw(count, max_tokens + 1, dim)
    # Logits of about unit variance, as at the start of training.
    weight, bias = draw(vocab, dim, scale=dim**-0.5), draw(vocab, scale=dim**-0.5)
    targets = torch.randint(0, vocab - 1, (count, max_tokens), generator=random)
    targets = targets + (targets >= blank)
    return JoinerBatch(
        encoder,
        decoder,
        weight,
        bias,
        targets.to(device=device, dtype=integer_dtype).contiguous(),
        torch.tensor(frames, device=device, dtype=integer_dtype),
        torch.tensor(tokens, device=device, dtype=integer_dtype),
        frames,
        tokens,
        blank,
        precision,
    )


Reduction = Literal["none", "sum", "mean"]
REDUCTIONS = ("none", "sum", "mean")


@dataclass(frozen=True)
class Lengths:
    """Frames and labels of every utterance, on the device of the batch, and on the host if they were given there."""

    frames: Tensor
    labels: Tensor
    on_host: tuple[tuple[int, int], ...] | None

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Frames and labels of every utterance as numbers; this waits for the device if they are only there."""
        if self.on_host is not None:
            return self.on_host
        return tuple(zip(self.frames.tolist(), self.labels.tolist(), strict=True))


def checked_lengths(
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    batch: int,
    frames: int,
    labels: int,
    device: torch.device,
) -> Lengths:
    """The lengths of a batch that is padded to `frames` and `labels`.

    Lengths on the host are checked. Reading lengths from a device would wait for it, so those are clamped to the padded
    sizes instead.
    """
    given = torch.as_tensor(frame_lengths), torch.as_tensor(target_lengths)
    for name, tensor in zip(("frame_lengths", "target_lengths"), given, strict=True):
        if tensor.shape != (batch,) or tensor.dtype.is_floating_point:
            shape = tuple(tensor.shape)
            raise StopwavError(f"{name} of shape {shape} and {tensor.dtype}; give {batch} integers, one per utterance")
    on_host = None
    if all(tensor.device.type == "cpu" for tensor in given):
        on_host = tuple(zip(given[0].tolist(), given[1].tolist(), strict=True))
        for index, (frame_count, label_count) in enumerate(on_host):
            if not 1 <= frame_count <= frames:
                raise StopwavError(f"utterance {index} has {frame_count} frames; the batch has room for 1 to {frames}")
            if not 0 <= label_count <= labels:
                raise StopwavError(f"utterance {index} has {label_count} labels; the batch has room for 0 to {labels}")
    on_device = [tensor.to(device, torch.int64, non_blocking=True) for tensor in given]
    return Lengths(on_device[0].clamp(0, frames), on_device[1].clamp(0, labels), on_host)


def checked_targets(targets: Tensor, lengths: Lengths, symbols: int, blank: int, device: torch.device) -> Tensor:
    """The labels on the device, clamped to valid symbols, padding included; labels on the host are checked."""
    if targets.dim() != 2 or targets.shape[0] != len(lengths.frames) or targets.dtype.is_floating_point:
        shape = tuple(targets.shape)
        raise StopwavError(f"targets of shape {shape} and {targets.dtype}; give integers, one row per utterance")
    if not 0 <= blank < symbols:
        raise StopwavError(f"blank {blank} is not one of the {symbols} symbols; give one from 0 to {symbols - 1}")
    if targets.device.type == "cpu" and lengths.on_host is not None:
        counts = torch.tensor([count for _, count in lengths.on_host])
        real = torch.arange(targets.shape[1]) < counts[:, None]
        wrong = (real & ((targets < 0) | (targets >= symbols) | (targets == blank))).nonzero()
        if len(wrong):
            index, position = wrong[0].tolist()
            label = int(targets[index, position])
            rule = f"give one from 0 to {symbols - 1} that is not the blank {blank}"
            raise StopwavError(f"utterance {index} has the label {label}; {rule}")
    # The kernels need contiguous rows.
    return targets.to(device, torch.int64, non_blocking=True).clamp(0, symbols - 1).contiguous()


def reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    """The losses, their sum, or their mean over utterances."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.mean()
    raise StopwavError(f"reduction {reduction!r}; give one of {', '.join(REDUCTIONS)}")
