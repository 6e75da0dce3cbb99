"""One training step (data, forward, loss, backward, optimiser), and a timer for the rows that are active during it.

On CUDA the timer also records the device's time, without waiting for the device in between.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

from stopwav.errors import StopwavError
from stopwav.measure.clock import CudaEvents, device_index
from stopwav.measure.module_rows import PHASE_ROWS, REST

PHASES = tuple(PHASE_ROWS)


@dataclass(frozen=True)
class TrainingBatch:
    """One batch: inputs for the model, targets for the loss, and how many frames are real and padded.

    Inputs are passed to the model as they are, a tuple as arguments, a mapping as keywords.
    """

    inputs: Any
    targets: Any = None
    utterances: int | None = None
    real_frames: int | None = None
    padded_frames: int | None = None


@dataclass(frozen=True)
class TrainingJob:
    """A model, the function that makes the batch of a step, its loss, and its optimiser."""

    model: Any
    make_batch: Callable[[int], Any]
    loss_fn: Callable[[Any, Any], Any]
    optimizer: Any
    device: str = "cpu"
    # The dtype of `torch.autocast`, by its name in torch; None is no autocast.
    autocast: str | None = None


class StepObserver(Protocol):
    """Something that is notified of the phases of a step."""

    def phase(self, name: str) -> AbstractContextManager[None]: ...

    def before_backward(self, loss: Any) -> None: ...


def run_step(job: TrainingJob, index: int, observer: StepObserver) -> TrainingBatch:
    """Run one training step on the batch of that number, and return the batch."""
    with observer.phase("data"):
        batch = as_batch(job.make_batch(index))
    with observer.phase("forward"), _autocast(job):
        output = _forward(job.model, batch.inputs)
    with observer.phase("loss"), _autocast(job):
        loss = _checked_loss(job.loss_fn(output, batch.targets))
    del output
    observer.before_backward(loss)
    with observer.phase("backward"):
        loss.backward()
    with observer.phase("optimizer"):
        job.optimizer.step()
        job.optimizer.zero_grad(set_to_none=True)
    return batch


@dataclass(frozen=True)
class RowTime:
    """Seconds in which a row itself was active, by the wall clock and by the device (None without one)."""

    wall_s: float
    device_s: float | None


@dataclass(frozen=True)
class StepTime:
    """The time of a step, and of each row in each phase; these add up to it."""

    wall_s: float
    device_s: float | None
    parts: dict[tuple[str, str], RowTime]

    def phase(self, name: str) -> RowTime:
        """Return the time of a phase."""
        parts = [part for (_, phase), part in self.parts.items() if phase == name]
        device_s = None if self.device_s is None else sum(part.device_s or 0.0 for part in parts)
        return RowTime(sum(part.wall_s for part in parts), device_s)


class StepTimer:
    """Records at which moments another row becomes active, and adds up the time of each."""

    def __init__(self, device: str = "cpu", now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._events = CudaEvents(device_index(device)) if device.startswith("cuda") else None
        self._now_ns = now_ns
        self._marks: list[tuple[str, str, int, Any]] = []

    def begin(self) -> None:
        """Begin a step, once the device has finished earlier work."""
        self._marks.clear()
        if self._events:
            self._events.begin()
        self.mark(REST, "rest")

    def mark(self, row: str, phase: str) -> None:
        """Record that a row is active from now on."""
        self._marks.append((row, phase, self._now_ns(), self._events.record() if self._events else None))

    def end(self) -> StepTime:
        """End the step, wait for the device, and add up."""
        last_event = self._events.end() if self._events else None
        end_ns = self._now_ns()
        sums: dict[tuple[str, str], list[float]] = {}
        following = [*self._marks[1:], ("", "", end_ns, last_event)]
        for (row, phase, start_ns, event), (_, _, stop_ns, next_event) in zip(self._marks, following, strict=True):
            part = sums.setdefault((row, phase), [0.0, 0.0])
            part[0] += (stop_ns - start_ns) / 1e9
            part[1] += event.elapsed_time(next_event) / 1e3 if self._events else 0.0
        parts = {key: RowTime(wall, device if self._events else None) for key, (wall, device) in sums.items()}
        device_s = sum(part.device_s or 0.0 for part in parts.values()) if self._events else None
        return StepTime((end_ns - self._marks[0][2]) / 1e9, device_s, parts)


class PhaseProfiler:
    """An observer that times only the phases: it puts no hook on any module."""

    def __init__(self, timer: StepTimer) -> None:
        self._timer = timer
        self._phase = ""

    def phase(self, name: str) -> PhaseProfiler:
        """Mark a phase of the step."""
        self._phase = name
        return self

    def before_backward(self, loss: Any) -> None:
        """Do nothing: the graph is not needed."""

    def __enter__(self) -> None:
        self._timer.mark(PHASE_ROWS[self._phase], self._phase)

    def __exit__(self, *error: object) -> None:
        self._timer.mark(REST, "rest")


def as_batch(batch: Any) -> TrainingBatch:
    """Return a batch as it is, and a pair of inputs and targets as one."""
    if isinstance(batch, TrainingBatch):
        return batch
    if isinstance(batch, list | tuple) and len(batch) == 2:
        return TrainingBatch(*batch)
    raise StopwavError(
        f"step: make_batch returned a {type(batch).__name__}; return a pair (inputs, targets), or stopwav.TrainingBatch"
    )


def _checked_loss(loss: Any) -> Any:
    """Return the loss if it is one number with a gradient; raise otherwise."""
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
        # Before the model is called, so that an error inside it is not mistaken for one about its arguments.
        inspect.signature(model.forward).bind(*arguments, **keywords)
    except TypeError as error:
        given = [*(type(argument).__name__ for argument in arguments), *(f"{name}=" for name in keywords)]
        signature = _short(inspect.signature(model.forward))
        raise StopwavError(
            f"step: {type(model).__name__}.forward{signature} was given ({', '.join(given)}): {error}; "
            "make_batch has to return its inputs as a tuple or a mapping"
        ) from None
    return model(*arguments, **keywords)


def _short(signature: inspect.Signature) -> str:
    """Return a signature by names alone, with `=…` for those that have a default."""
    parameters = signature.parameters.items()
    names = [name if parameter.default is parameter.empty else f"{name}=…" for name, parameter in parameters]
    return f"({', '.join(names)})"


def _autocast(job: TrainingJob) -> AbstractContextManager[Any]:
    if job.autocast is None:
        return nullcontext()
    import torch

    return torch.autocast(job.device.partition(":")[0], dtype=getattr(torch, job.autocast))
