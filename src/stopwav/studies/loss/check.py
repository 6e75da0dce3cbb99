"""Whether a loss is right: value and gradients against the float64 oracle, on batches small enough for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stopwav.losses.implementation import Implementation
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch, padded_logits
from stopwav.speech.batches import Batch
from stopwav.studies.loss.loss_step import StepPlace, inputs_of, prepare

# Lengths that differ a little, and lengths that differ a lot; with one token where the batch has twelve.
BATCHES = (Batch((9, 6, 4), (5, 3, 2)), Batch((30, 3), (12, 1)))
# Long enough that a range of 5 leaves most of the lattice out.
PRUNED_BATCH = Batch((60, 40), (20, 14))
# Few symbols and dimensions: rounding hides nothing, and the oracle takes no time.
VOCAB, DIM = 17, 16
# How far, relative to the largest entry, a right implementation may be off by rounding in each precision. Whatever is
# wrong about one (a length, an index, a missing term) moves it by tens of percent.
TOLERANCES = {"float64": 1e-7, "float32": 1e-3, "tf32": 2e-2, "float16": 2e-2, "bfloat16": 1e-1}


class LossCheck:
    """Inside its fresh process: a loss beside the oracle."""

    def __init__(self, place: StepPlace, seed: int) -> None:
        self._place = replace(place, vocab=VOCAB, dim=DIM, blank=min(place.blank, VOCAB - 1))
        self._seed = seed
        self._contender = prepare(self._place)

    def run(self) -> dict[str, Any]:
        """The largest deviation of the value and of each gradient, whether two runs agree, and what pruning costs."""
        import torch

        # On a CPU PyTorch's first tanh may be off by 9e-5 where several threads share it: the loss is not to blame.
        torch.tanh(torch.rand(4096))
        found: dict[str, float] = {}
        same = True
        for index, batch in enumerate(BATCHES):
            deviations, repeats = self._compare(batch, self._seed + index)
            same = same and repeats
            for name, value in deviations.items():
                found[name] = max(found.get(name, 0.0), value)
        return {
            "deviations": found,
            "deterministic": same,
            "gap": self._gap(),
            "version": self._contender.version,
            "precision": self._precision(),
        }

    def _precision(self) -> str:
        """The precision by whose rounding the loss is judged: float32 where it takes no more."""
        asked = self._place.precision
        return "float32" if asked == "float64" and asked not in self._contender.needs.dtypes else asked

    def _compare(self, batch: Batch, seed: int) -> tuple[dict[str, float], bool]:
        value, gradients = self._evaluate(batch, seed)
        again, gradients_again = self._evaluate(batch, seed)
        truth, truths = _oracle(self._place, batch, seed)
        if value.numel() == 1:  # an implementation that gives the sum alone
            truth = truth.sum().reshape(1)
        deviations = {"value": float(((value.reshape(-1) - truth) / truth).abs().max())}
        for name, gradient in gradients.items():
            deviations[name] = float((gradient - truths[name]).abs().max() / truths[name].abs().max())
        repeats = bool((value == again).all()) and all(
            bool((gradients[name] == gradients_again[name]).all()) for name in gradients
        )
        # What is not a number is as wrong as can be, and `max` would lose it.
        return {name: one if one == one else float("inf") for name, one in deviations.items()}, repeats

    def _evaluate(self, batch: Batch, seed: int) -> tuple[Any, dict[str, Any]]:
        inputs = inputs_of(self._place, self._contender, batch, seed)
        return _value_and_gradients(self._contender, inputs)

    def _gap(self) -> float | None:
        """By how much the pruned loss is above the one it approximates, of which it leaves out paths."""
        if self._contender.pruned is None:
            return None
        inputs = inputs_of(self._place, self._contender, PRUNED_BATCH, self._seed)
        pruned = float(self._contender.pruned(inputs).detach().double().sum())
        truth, _ = _oracle(self._place, PRUNED_BATCH, self._seed)
        return pruned / float(truth.sum()) - 1


def is_right(found: Mapping[str, Any]) -> bool:
    """Whether value and gradients are those of the oracle but for rounding, by what a check found."""
    return all(value <= TOLERANCES[found["precision"]] for value in found["deviations"].values())


def _value_and_gradients(contender: Implementation, inputs: JoinerBatch) -> tuple[Any, dict[str, Any]]:
    losses = (contender.unpruned or contender.losses)(inputs)
    losses.sum().backward()
    gradients = {name: leaf.grad.detach().double().cpu() for name, leaf in inputs.leaves.items()}
    return losses.detach().double().cpu(), gradients


def _oracle(place: StepPlace, batch: Batch, seed: int) -> tuple[Any, dict[str, Any]]:
    """The truth, from the same numbers in float64 on the host."""
    from stopwav.losses.oracle import oracle_loss

    inputs = make_joiner_batch(
        batch.frames,
        batch.tokens,
        vocab=place.vocab,
        dim=place.dim,
        blank=place.blank,
        precision="float64",
        seed=seed,
    )
    losses = oracle_loss(
        padded_logits(inputs), inputs.targets, inputs.frame_lengths, inputs.target_lengths, inputs.blank
    )
    losses.sum().backward()
    return losses.detach(), {name: leaf.grad.detach() for name, leaf in inputs.leaves.items()}
