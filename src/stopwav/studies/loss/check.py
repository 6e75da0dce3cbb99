"""Whether a loss is right: value and gradients against the float64 oracle, on batches small enough for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from stopwav.errors import StopwavError
from stopwav.losses.implementation import Implementation
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch, padded_logits
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.loss_step import LossSetup, load_loss, loss_setup, make_inputs
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.worker import Worker, outcome_to_piece

# Lengths that differ a little, and lengths that differ a lot; with one token where the batch has twelve.
BATCHES = (Batch((9, 6, 4), (5, 3, 2)), Batch((30, 3), (12, 1)))
# Long enough that a range of 5 leaves most of the lattice out.
PRUNED_BATCH = Batch((60, 40), (20, 14))
# Few symbols and dimensions: rounding hides nothing, and the oracle takes no time.
VOCAB, DIM = 17, 16
# The largest relative error, to the largest entry, that rounding explains in each precision. Whatever is wrong with a
# loss (a length, an index, a missing term) moves it by tens of percent. Each limit is several times the largest error
# of an exact loss on an H200, and below that of the next coarser precision: a loss that computes in less than it was
# asked for is seen.
TOLERANCES = {
    # Sums in float64 are off by 1e-15, those in float32 by 1e-6.
    "float64": 1e-7,
    # 1.2e-5 at most of twelve losses.
    "float32": 1e-4,
    # 5.8e-4: products take inputs of 11 bits, each off by up to 4.9e-4.
    "tf32": 3e-3,
    # 11 bits too, of logits and, where the loss takes float16, of its sums.
    "float16": 2e-2,
    # 5e-3: products take inputs of 8 bits and return logits of 8 bits, each off by up to 3.9e-3.
    "bfloat16": 5e-2,
}
# The code of the warning about a loss whose adapter puts something right.
CORRECTED = "corrected"
# JSON has no infinity: an infinite error is written as the largest number there is.
LARGEST = 1e308


def check_loss(spec: LossSpec, name: str, time_limit_s: float | None = None) -> Piece:
    """Return the piece that says why a loss cannot take part, or how it compares with the oracle."""
    limit_s = time_limit_s or spec.time_limit_s
    code, reason = _absence(spec, name)
    if reason:
        return Piece(key=["absent", name], status="skipped", message=reason, data={"code": code})
    arguments = (loss_setup(spec, name, spec.vocab[0]), spec.seed)
    with Worker(LossCheck, arguments, "loss", limit_s) as worker:
        outcome = worker.call("run", time_limit_s=limit_s)
    return outcome_to_piece(["check", name], outcome)


def right_losses(record: Record, spec: LossSpec) -> list[str]:
    """Return the losses of a run that match the oracle."""
    return [name for name in spec.losses if matches_oracle(record.find(("check", name)))]


def exact_losses(record: Record, spec: LossSpec) -> list[str]:
    """Return those that match it and leave no paths out: these are ranked."""
    return [name for name in right_losses(record, spec) if not leaves_paths_out(record.find(("check", name)))]


def matches_oracle(check: Piece | None) -> bool:
    """Return whether a loss was checked and is right, by the piece of its check."""
    return check is not None and check.status == "ok" and is_right(check.data)


def leaves_paths_out(check: Piece | None) -> bool:
    """Return whether a loss is a pruned one, by the piece of its check."""
    return check is not None and check.data.get("gap") is not None


def problems(spec: LossSpec) -> Iterator[tuple[str, str]]:
    """Yield the losses of a run that are unknown or missing, each as the setting that names it and the reason."""
    from stopwav.losses.registry import check_name

    for name in spec.losses:
        try:
            reason = check_name(name)
        except StopwavError as error:
            yield "losses", str(error)
        else:
            if reason:
                yield "losses", f"loss {name!r} {reason}"


def _absence(spec: LossSpec, name: str) -> tuple[str, str]:
    """Return why a loss cannot take part, as the code and message of a warning; an empty message where it can."""
    from stopwav.losses.registry import BUILT_IN, check_name, split_name

    listed = next((listed for listed in BUILT_IN if listed.name == split_name(name)[0]), None)
    kind = spec.device.partition(":")[0]
    if listed is not None and kind not in listed.needs.devices:
        return "loss-device", f"runs on {' and '.join(listed.needs.devices)} only, and this is {spec.device}"
    return "loss-missing", check_name(name)


class LossCheck:
    """Inside its worker: a loss next to the oracle."""

    def __init__(self, setup: LossSetup, seed: int) -> None:
        self._setup = replace(setup, vocab=VOCAB, dim=DIM, blank=min(setup.blank, VOCAB - 1))
        self._seed = seed
        self._loss, self._held = load_loss(self._setup)

    def run(self) -> dict[str, Any]:
        """Return the largest error of the value and of each gradient, whether two runs agree, and the pruning gap."""
        import torch

        # On a CPU PyTorch's first tanh may be off by 9e-5 where several threads share it: the loss is not to blame.
        torch.tanh(torch.rand(4096))
        largest: dict[str, float] = {}
        deterministic = True
        for index, batch in enumerate(BATCHES):
            errors, repeats = self._held.take(partial(self._compare, batch, self._seed + index))
            deterministic = deterministic and repeats
            for name, error in errors.items():
                largest[name] = max(largest.get(name, 0.0), error)
        return {
            "deviations": {name: min(error, LARGEST) for name, error in largest.items()},
            "deterministic": deterministic,
            "gap": self._pruning_gap(),
            "version": self._loss.version,
            "precision": self._precision(),
            "cautions": [*self._corrections(), *self._held.said()],
        }

    def _corrections(self) -> list[list[str]]:
        """The warning about what the loss's adapter puts right."""
        corrected = self._loss.needs.corrected
        return [[CORRECTED, f"the loss is not used as its package returns it: {corrected}"]] if corrected else []

    def _precision(self) -> str:
        """The precision by whose rounding the loss is judged: float32 where it takes no more."""
        asked = self._setup.precision
        return "float32" if asked == "float64" and asked not in self._loss.needs.dtypes else asked

    def _compare(self, batch: Batch, seed: int) -> tuple[dict[str, float], bool]:
        value, gradients = self._evaluate(batch, seed)
        value_again, gradients_again = self._evaluate(batch, seed)
        true_value, true_gradients = _oracle(self._setup, batch, seed)
        if value.numel() == 1:  # an implementation that gives the sum alone
            true_value = true_value.sum().reshape(1)
        errors = {"value": float(((value.reshape(-1) - true_value) / true_value).abs().max())}
        for name, gradient in gradients.items():
            truth = true_gradients[name]
            errors[name] = float((gradient - truth).abs().max() / truth.abs().max())
        repeats = bool((value == value_again).all()) and all(
            bool((gradients[name] == gradients_again[name]).all()) for name in gradients
        )
        # What is not a number is as wrong as can be, and `max` would lose it.
        return {name: error if error == error else float("inf") for name, error in errors.items()}, repeats

    def _evaluate(self, batch: Batch, seed: int) -> tuple[Any, dict[str, Any]]:
        return _value_and_gradients(self._loss, make_inputs(self._setup, self._loss, batch, seed))

    def _pruning_gap(self) -> float | None:
        """By how much a pruned loss is above the one it approximates, of which it leaves out paths."""
        if self._loss.pruned is None:
            return None
        inputs = make_inputs(self._setup, self._loss, PRUNED_BATCH, self._seed)
        pruned = float(self._loss.pruned(inputs).detach().double().sum())
        exact, _ = _oracle(self._setup, PRUNED_BATCH, self._seed)
        return pruned / float(exact.sum()) - 1


def is_right(check: Mapping[str, Any]) -> bool:
    """Return whether value and gradients are those of the oracle but for rounding, by the data of a check."""
    return all(error <= TOLERANCES[check["precision"]] for error in check["deviations"].values())


def _value_and_gradients(loss: Implementation, inputs: JoinerBatch) -> tuple[Any, dict[str, Any]]:
    losses = (loss.unpruned or loss.losses)(inputs)
    losses.sum().backward()
    gradients = {name: leaf.grad.detach().double().cpu() for name, leaf in inputs.leaves.items()}
    return losses.detach().double().cpu(), gradients


def _oracle(setup: LossSetup, batch: Batch, seed: int) -> tuple[Any, dict[str, Any]]:
    """The true value and gradients, from the same numbers in float64 on the host."""
    from stopwav.losses.oracle import oracle_loss

    inputs = make_joiner_batch(
        batch.frames,
        batch.tokens,
        vocab=setup.vocab,
        dim=setup.dim,
        blank=setup.blank,
        precision="float64",
        seed=seed,
    )
    losses = oracle_loss(
        padded_logits(inputs), inputs.targets, inputs.frame_lengths, inputs.target_lengths, inputs.blank
    )
    losses.sum().backward()
    return losses.detach(), {name: leaf.grad.detach() for name, leaf in inputs.leaves.items()}
