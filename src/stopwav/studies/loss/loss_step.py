"""One training step of a loss on one batch: joiner, loss, backward; and how it is measured inside a fresh process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stopwav.losses.implementation import Implementation
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch
from stopwav.measure.plan import Plan
from stopwav.measure.rounds import Round
from stopwav.measure.stages import stage
from stopwav.speech.batches import Batch
from stopwav.studies.loss.spec import LossSpec


@dataclass(frozen=True)
class StepPlace:
    """A loss, and in what it is measured: everything but the batch."""

    loss: str
    vocab: int
    dim: int
    blank: int
    precision: str
    device: str
    memory_limit_bytes: int | None = None

    @property
    def on_cuda(self) -> bool:
        """Whether the step runs on a CUDA device."""
        return self.device.startswith("cuda")


class StepCall:
    """The timed call: the gradients of one batch, computed anew."""

    def __init__(self, contender: Implementation, inputs: JoinerBatch) -> None:
        self._contender, self._inputs = contender, inputs

    def __call__(self) -> None:
        """Nothing; the gradients lie in the leaves of the inputs."""
        self.drop_gradients()
        with stage("forward"):
            total = self._contender.losses(self._inputs).sum()
        with stage("backward"):
            total.backward()

    def drop_gradients(self) -> None:
        """Leave the inputs as they were made."""
        for leaf in self._inputs.leaves.values():
            leaf.grad = None


class StepRunner:
    """Inside its fresh process: a loss that is imported once and measured on one batch after the other."""

    def __init__(self, place: StepPlace, plan: Plan) -> None:
        self._place, self._plan = place, plan
        self._contender = prepare(place)

    def measure(self, batch: Batch, seed: int) -> Round:
        """The round of one batch: first call, warm-up and values, then the memory in a pass of its own."""
        from stopwav.measure.machine import throttle_count
        from stopwav.measure.memory import host_resident_bytes, measure_host_peak
        from stopwav.measure.sampler import load_statistics, sample

        load_statistics()
        clock = _clock(self._place)
        loaded = clock.time(lambda: self.call(batch, seed))
        call = loaded.result
        resident_bytes = host_resident_bytes()
        before = throttle_count()
        samples = sample(call, clock, self._plan)
        after = throttle_count()
        return Round(
            index=0,
            status="ok",
            load_s=loaded.wall_s,
            samples=samples,
            memory=measure_host_peak(call, resident_bytes),
            cuda_memory=self._cuda_peak(call) if self._place.on_cuda else None,
            throttled=before is not None and after is not None and after > before,
            facts={"engine": {"name": self._contender.name, "version": self._contender.version}},
        )

    def call(self, batch: Batch, seed: int) -> StepCall:
        """The step of a batch, its inputs made."""
        return StepCall(self._contender, inputs_of(self._place, self._contender, batch, seed))

    def once(self, batch: Batch, seed: int) -> None:
        """Nothing; whether a batch goes through is the answer."""
        self.call(batch, seed)()

    def _cuda_peak(self, call: StepCall) -> Any:
        from stopwav.measure.memory import measure_cuda_peak

        # Over the inputs and what matrix products keep for as long as the process lives: any model has that too.
        call.drop_gradients()
        return measure_cuda_peak(call, self._place.device)


def prepare(place: StepPlace) -> Implementation:
    """The loss, imported, with the process set up for its device and precision."""
    from stopwav.losses.registry import find_loss

    if place.memory_limit_bytes is not None:
        from stopwav.measure.memory import limit_host_memory

        limit_host_memory(place.memory_limit_bytes)
    import torch

    from stopwav.models.weights import disable_amx_in_vm

    disable_amx_in_vm()
    # Off by default in PyTorch; a recipe that switches it on for all is the user's to name.
    torch.backends.cuda.matmul.allow_tf32 = place.precision == "tf32"
    return find_loss(place.loss)


def inputs_of(place: StepPlace, contender: Implementation, batch: Batch, seed: int) -> JoinerBatch:
    """The inputs of a batch, as the loss wants its integers."""
    return make_joiner_batch(
        batch.frames,
        batch.tokens,
        vocab=place.vocab,
        dim=place.dim,
        blank=place.blank,
        precision=place.precision,
        device=place.device,
        integers=contender.needs.integers,
        seed=seed,
    )


def _clock(place: StepPlace) -> Any:
    from stopwav.measure.clock import KernelClock, WallClock

    return KernelClock(place.device) if place.on_cuda else WallClock()


def place_of(spec: LossSpec, loss: str, vocab: int) -> StepPlace:
    """In what a loss is measured."""
    limit_bytes = None if spec.memory_limit_gb is None else round(spec.memory_limit_gb * 1e9)
    return StepPlace(loss, vocab, spec.dim, spec.blank, spec.dtype, spec.device, limit_bytes)
