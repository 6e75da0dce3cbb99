"""One training step of a loss on one batch: joiner, loss, backward; and how it is measured inside a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stopwav.losses.implementation import Implementation
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch
from stopwav.measure.float32_products import HeldPrecision
from stopwav.measure.plan import Plan
from stopwav.measure.rounds import Round
from stopwav.measure.stages import stage
from stopwav.speech.batches import Batch
from stopwav.studies.loss.spec import LossSpec


@dataclass(frozen=True)
class LossSetup:
    """A loss and how it is measured: everything but the batch."""

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


def loss_setup(spec: LossSpec, loss: str, vocab: int) -> LossSetup:
    """Return the setup of a loss of a run."""
    limit_bytes = None if spec.memory_limit_gb is None else round(spec.memory_limit_gb * 1e9)
    return LossSetup(loss, vocab, spec.dim, spec.blank, spec.dtype, spec.device, limit_bytes)


class LossStep:
    """The timed call: it computes the gradients of one batch, and leaves them in the leaves of the inputs."""

    def __init__(self, loss: Implementation, inputs: JoinerBatch) -> None:
        self._loss, self._inputs = loss, inputs

    def __call__(self) -> None:
        """Run the step once."""
        self.drop_gradients()
        with stage("forward"):
            total = self._loss.losses(self._inputs).sum()
        with stage("backward"):
            total.backward()

    def drop_gradients(self) -> None:
        """Leave the inputs as they were made."""
        for leaf in self._inputs.leaves.values():
            leaf.grad = None


class LossRunner:
    """Inside its worker: a loss that is imported once and measured on one batch after the other."""

    def __init__(self, setup: LossSetup, plan: Plan) -> None:
        self._setup, self._plan = setup, plan
        self._loss, self._precision = load_loss(setup)

    def measure(self, batch: Batch, seed: int, visit_s: float | None = None) -> Round:
        """Return the round of one batch: first call, warm-up and values, then the memory in a pass of its own.

        `visit_s` is the time for all calls but that of the memory pass; None is no limit but the plan's.
        """
        from stopwav.measure.machine import throttle_count
        from stopwav.measure.memory import host_resident_bytes, measure_host_peak
        from stopwav.measure.sampler import load_statistics, sample

        load_statistics()
        clock = _clock(self._setup)
        loaded = clock.time(lambda: self.step(batch, seed))
        step = loaded.result
        resident_bytes = host_resident_bytes()
        before = throttle_count()
        samples = self._precision.take(lambda: sample(step, clock, replace(self._plan, visit_s=visit_s)))
        samples = replace(samples, cautions=(*samples.cautions, *self._precision.cautions))
        after = throttle_count()
        return Round(
            index=0,
            status="ok",
            load_s=loaded.wall_s,
            samples=samples,
            memory=measure_host_peak(step, resident_bytes),
            cuda_memory=self._cuda_peak(step) if self._setup.on_cuda else None,
            throttled=before is not None and after is not None and after > before,
            facts={"engine": {"name": self._loss.name, "version": self._loss.version}},
        )

    def step(self, batch: Batch, seed: int) -> LossStep:
        """Return the step of a batch, its inputs made."""
        return LossStep(self._loss, make_inputs(self._setup, self._loss, batch, seed))

    def run_once(self, batch: Batch, seed: int) -> None:
        """Run the step of a batch once, untimed."""
        self.step(batch, seed)()

    def _cuda_peak(self, step: LossStep) -> Any:
        from stopwav.measure.memory import measure_cuda_peak

        # Excluding the inputs and what matrix products keep for as long as the process lives: any model has that too.
        step.drop_gradients()
        return measure_cuda_peak(step, self._setup.device)


def load_loss(setup: LossSetup) -> tuple[Implementation, HeldPrecision]:
    """Import the loss, set the process up for its device and precision, and return both."""
    from stopwav.losses.registry import find_loss

    if setup.memory_limit_bytes is not None:
        from stopwav.measure.memory import limit_host_memory

        limit_host_memory(setup.memory_limit_bytes)
    import torch

    from stopwav.models.checkpoint import disable_amx_in_vm

    disable_amx_in_vm()
    # TF32 is off by default in PyTorch: that it is on here says nothing of the loss.
    torch.set_float32_matmul_precision("high" if setup.precision == "tf32" else "highest")
    precision = HeldPrecision(setup.loss, tf32=setup.precision == "tf32")
    loss = find_loss(setup.loss)
    precision.hold("after the loss was imported")
    return loss, precision


def make_inputs(setup: LossSetup, loss: Implementation, batch: Batch, seed: int) -> JoinerBatch:
    """Return the inputs of a batch, with the integer type that the loss needs."""
    return make_joiner_batch(
        batch.frames,
        batch.tokens,
        vocab=setup.vocab,
        dim=setup.dim,
        blank=setup.blank,
        precision=setup.precision,
        device=setup.device,
        integers=loss.needs.integers,
        seed=seed,
    )


def _clock(setup: LossSetup) -> Any:
    from stopwav.measure.clock import KernelClock, WallClock

    return KernelClock(setup.device) if setup.on_cuda else WallClock()
