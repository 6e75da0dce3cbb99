"""The inputs of every loss, and the joiner that computes logits from them: tanh(encoder + predictor), then linear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

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
