"""Are losses right on a batch of more than 2³¹ logits? Value and gradients of a slice, against the fused loss on it.

    python benchmarks/many_logits.py [--losses k2,warprnnt-numba,…] [--utterances 112] [--all] [--device cuda]

The batch has 112 utterances of 400 frames and 100 tokens, 2.26 × 10⁹ logits of 500 symbols, all of them real: padded
and packed it has as many. 216 utterances have more than 2³². The first and the last two are computed again by
themselves by the fused loss, which holds a few million logits at a time. Offsets of too few bits show as an error that
is not one of rounding, or as an illegal access; so each loss runs in a process of its own. Losses that stopwav refuses
with so many logits are left out without `--all`, which lifts the limit. Prints Markdown. Needs a GPU with 80 GB.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

from stopwav.losses.implementation import Implementation
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch
from stopwav.losses.registry import BUILT_IN, find_loss, installed_losses
from stopwav.measure.process import FreshProcess

FRAMES, TOKENS, VOCAB = 400, 100, 500
# Few: the joiner's activation takes as much as the logits where it has as many dimensions.
DIM = 32
# Sums along 500 steps of a path in float32 are off by 1e-3; a wrong offset moves a value by its own size.
MOST_ROUNDING = 1e-2
# Utterances at either end that are compared: offsets overflow towards the end, and a wrapped one reaches the beginning.
ENDS = 2
TIME_LIMIT_S = 120.0


class ManyLogits:
    """Inside its process: a loss on the batch, and the fused loss on its ends."""

    def __init__(self, name: str, utterances: int, device: str) -> None:
        import torch

        loss = find_loss(name)
        torch.set_float32_matmul_precision("highest")
        # Whether it is right beyond its limit is the question.
        self._loss: Implementation = replace(loss, needs=replace(loss.needs, max_logits=None))
        lengths = (FRAMES,) * utterances, (TOKENS,) * utterances
        self._batch = make_joiner_batch(
            *lengths, vocab=VOCAB, dim=DIM, device=device, integers=self._loss.needs.integers
        )

    def compare(self) -> dict[str, float]:
        """Return the largest relative error of the losses, where it gives each, and of the gradients."""
        losses = (self._loss.unpruned or self._loss.losses)(self._batch)
        losses.sum().backward()
        batch, count = self._batch, len(self._batch.frames)
        errors: dict[str, float] = {}
        for at in (slice(0, ENDS), slice(count - ENDS, count)):
            piece = _slice(batch, at)
            true = find_loss("fused").losses(piece)
            true.sum().backward()
            pairs = {"encoder": (batch.encoder.grad[at], piece.encoder.grad)}
            pairs["decoder"] = (batch.decoder.grad[at], piece.decoder.grad)
            if losses.numel() == count:
                pairs["value"] = (losses.detach().reshape(-1)[at], true.detach())
            for name, (value, truth) in pairs.items():
                error = float((value - truth).abs().max() / truth.abs().max())
                errors[name] = max(errors.get(name, 0.0), error if error == error else float("inf"))
        return errors


def _slice(batch: JoinerBatch, at: slice) -> JoinerBatch:
    """Some utterances of a batch, as the fused loss takes them."""
    pieces: dict[str, Any] = {
        name: getattr(batch, name).detach()[at].clone().requires_grad_() for name in ("encoder", "decoder")
    }
    integers = {name: getattr(batch, name)[at].long() for name in ("targets", "frame_lengths", "target_lengths")}
    shared = {name: getattr(batch, name).detach().clone().requires_grad_() for name in ("weight", "bias")}
    return replace(batch, **pieces, **integers, **shared, frames=batch.frames[at], tokens=batch.tokens[at])


def row(name: str, utterances: int, device: str) -> str:
    """The row of a loss."""
    begun_s = time.monotonic()
    with FreshProcess(ManyLogits, name, utterances, device) as process:
        outcome = process.start(TIME_LIMIT_S)
        if outcome.ok:
            outcome = process.call("compare", time_limit_s=TIME_LIMIT_S)
    took = f"{time.monotonic() - begun_s:.0f} s"
    if not outcome.ok:
        return f"| `{name}` | {outcome.status}: {outcome.message[:150]} | | {took} |"
    errors = ", ".join(f"{key} {error:.1e}" for key, error in outcome.value.items())
    verdict = "right" if max(outcome.value.values()) <= MOST_ROUNDING else "**wrong**"
    return f"| `{name}` | {verdict} | {errors} | {took} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", default="")
    parser.add_argument("--utterances", type=int, default=112)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    losses = chosen.losses.split(",") if chosen.losses else installed_losses(chosen.device)
    logits = chosen.utterances * FRAMES * (TOKENS + 1) * VOCAB
    limits = {listed.name: listed.needs.max_logits or logits for listed in BUILT_IN}
    print(f"{logits:,} logits\n\n| loss | | largest relative error | took |\n|---|---|---|---|")
    for name in losses:
        if chosen.all or limits.get(name, logits) >= logits:
            print(row(name, chosen.utterances, chosen.device), flush=True)


if __name__ == "__main__":
    main()
