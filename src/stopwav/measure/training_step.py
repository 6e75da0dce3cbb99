"""One training step: data, forward, loss, backward, optimiser, with or without somebody watching."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from stopwav.errors import StopwavError
from stopwav.measure.module_rows import DATA, LOSS, MODEL, OPTIMIZER, REST
from stopwav.measure.step_timer import StepTimer

PHASES = ("data", "forward", "loss", "backward", "optimizer", "rest")
_ROWS = {"data": DATA, "forward": MODEL, "loss": LOSS, "backward": LOSS, "optimizer": OPTIMIZER}


@dataclass(frozen=True)
class TrainingBatch:
    """What a step is fed with: inputs for the model, targets for the loss, and how many frames of it are real.

    Inputs are given to the model as they are, a tuple as its arguments, a mapping as its keywords.
    """

    inputs: Any
    targets: Any = None
    utterances: int | None = None
    real_frames: int | None = None
    padded_frames: int | None = None


@dataclass(frozen=True)
class TrainingJob:
    """A model, where its batches come from (by the number of the step), its loss, and its optimiser."""

    model: Any
    make_batch: Callable[[int], Any]
    loss_fn: Callable[[Any, Any], Any]
    optimizer: Any
    device: str = "cpu"
    # The type that `torch.autocast` computes in, as a name of torch; none without it.
    autocast: str | None = None


class Watch(Protocol):
    """Somebody who is told of the phases of a step."""

    def phase(self, name: str) -> AbstractContextManager[None]: ...

    def before_backward(self, loss: Any) -> None: ...


class PhaseWatch:
    """A watch of the phases alone: no hook on any module."""

    def __init__(self, timer: StepTimer) -> None:
        self._timer = timer
        self._open = ""

    def phase(self, name: str) -> PhaseWatch:
        """Mark a phase of the step."""
        self._open = name
        return self

    def before_backward(self, loss: Any) -> None:
        """Nothing."""

    def __enter__(self) -> None:
        self._timer.mark(_ROWS[self._open], self._open)

    def __exit__(self, *error: object) -> None:
        self._timer.mark(REST, "rest")


def run_step(job: TrainingJob, index: int, watch: Watch) -> TrainingBatch:
    """One step of training on the batch of that number, which is returned."""
    with watch.phase("data"):
        batch = as_batch(job.make_batch(index))
    with watch.phase("forward"), _autocast(job):
        output = _forward(job.model, batch.inputs)
    with watch.phase("loss"), _autocast(job):
        loss = checked_loss(job.loss_fn(output, batch.targets))
    del output
    watch.before_backward(loss)
    with watch.phase("backward"):
        loss.backward()
    with watch.phase("optimizer"):
        job.optimizer.step()
        job.optimizer.zero_grad(set_to_none=True)
    return batch


def as_batch(made: Any) -> TrainingBatch:
    """The batch itself, or a pair of inputs and targets as one."""
    if isinstance(made, TrainingBatch):
        return made
    if isinstance(made, list | tuple) and len(made) == 2:
        return TrainingBatch(*made)
    raise StopwavError(
        f"step: make_batch returned a {type(made).__name__}; give a pair (inputs, targets), or stopwav.TrainingBatch"
    )


def checked_loss(loss: Any) -> Any:
    """The loss, where it is one number that gradients can be taken of."""
    shape = getattr(loss, "shape", None)
    if shape is None or not hasattr(loss, "requires_grad"):
        raise StopwavError(f"step: the loss is a {type(loss).__name__}; loss_fn has to return a tensor of one number")
    if loss.numel() != 1:
        raise StopwavError(f"step: the loss has the shape {tuple(shape)}; make it one number, by .mean() or .sum()")
    if not loss.requires_grad:
        raise StopwavError(
            "step: the loss has no gradient; compute it from the model's output, without detach(), item() or no_grad()"
        )
    return loss


def _forward(model: Any, inputs: Any) -> Any:
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}
    if isinstance(inputs, Mapping):
        keywords = inputs
    elif isinstance(inputs, list | tuple):
        arguments = tuple(inputs)
    else:
        arguments = (inputs,)
    try:
        # Before the model is called, so that an error inside of it is not taken for one about its arguments.
        inspect.signature(model.forward).bind(*arguments, **keywords)
    except TypeError as error:
        given = [*(f"{type(one).__name__}" for one in arguments), *(f"{name}=" for name in keywords)]
        wanted = inspect.signature(model.forward)
        raise StopwavError(
            f"step: {type(model).__name__}.forward{_short(wanted)} was given ({', '.join(given)}): {error}; "
            "let make_batch return its inputs as a tuple or a mapping"
        ) from None
    return model(*arguments, **keywords)


def _short(signature: inspect.Signature) -> str:
    """A signature by names alone, those that have to be given first."""
    names = [name if one.default is one.empty else f"{name}=…" for name, one in signature.parameters.items()]
    return f"({', '.join(names)})"


def _autocast(job: TrainingJob) -> AbstractContextManager[Any]:
    if job.autocast is None:
        return nullcontext()
    import torch

    return torch.autocast(job.device.partition(":")[0], dtype=getattr(torch, job.autocast))
