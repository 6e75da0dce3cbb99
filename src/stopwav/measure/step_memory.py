"""The memory of a training step by row: activations saved for the backward pass, gradients, optimiser state, the peak.

Measured in a separate pass: on CUDA by the allocator's counters, which are exact; elsewhere by counting the tensors
that operators return, which misses what an operator allocates and frees internally.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stopwav.measure.labels import Labels, split_labels
from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import INSTRUMENT, REST, RowSet
from stopwav.measure.training_step import TrainingJob, run_step


@dataclass(frozen=True)
class MemoryMoment:
    """A part of a step in which one row was active: the bytes in use at its end, and its peak."""

    row: str
    phase: str
    end_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a step by row: saved activations, gradients and optimiser state; and its moments in order."""

    saved: dict[str, int]
    # Saved activations by label, each after those around it.
    label_saved: dict[Labels, int]
    gradients: dict[str, int]
    states: dict[str, int]
    moments: tuple[MemoryMoment, ...]
    baseline_bytes: int
    method: str

    @property
    def peak(self) -> MemoryMoment:
        """The moment with the most memory in use."""
        return max(self.moments, key=lambda moment: moment.peak_bytes)


class Gauge(Protocol):
    """Something that reads how much memory is in use."""

    method: str

    def read(self) -> tuple[int, int]: ...  # now, and the peak since the last reading


class CudaGauge:
    """The counters of PyTorch's CUDA allocator."""

    method = "CUDA allocator"

    def __init__(self, device: str) -> None:
        self._device = device

    def read(self) -> tuple[int, int]:
        """Return the bytes now and the peak since the last reading."""
        import torch

        peak = torch.cuda.max_memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return torch.cuda.memory_allocated(self._device), peak


class TensorGauge:
    """A count of the live tensors that operators have returned."""

    method = "tensors counted"

    def __init__(self) -> None:
        self._live, self._peak = 0, 0
        self._known: set[int] = set()

    def add(self, tensor: Any) -> None:
        """Count a tensor's memory once, until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        size = storage.nbytes()
        self._live += size
        self._peak = max(self._peak, self._live)
        weakref.finalize(storage, self._free, key, size)

    def read(self) -> tuple[int, int]:
        """Return the bytes now and the peak since the last reading."""
        peak, self._peak = max(self._peak, self._live), self._live
        return self._live, peak

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size


def measure_step_memory(job: TrainingJob, rows: RowSet, index: int) -> StepMemory:
    """Measure the memory of one training step on the batch of that number; it is not timed."""
    import torch

    with ExitStack() as stack:
        if job.device.startswith("cuda"):
            torch.cuda.synchronize(job.device)
            gauge: Gauge = CudaGauge(job.device)
        else:
            gauge = stack.enter_context(_tensor_gauge(job))
        baseline_bytes, _ = gauge.read()
        recorder = _Recorder(gauge, {parameter.untyped_storage().data_ptr() for parameter in job.model.parameters()})
        profiler = stack.enter_context(ModuleProfiler(rows, recorder.mark))
        optimizer = _GradientRecorder(job.optimizer, rows)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(recorder.save, lambda tensor: tensor))
        run_step(replace(job, optimizer=optimizer), index, profiler)
        recorder.mark("", "")
    states = _sum_by_row(job.optimizer, rows, lambda parameter: _state_bytes(job.optimizer, parameter))
    return StepMemory(
        recorder.saved,
        recorder.label_saved,
        optimizer.gradients,
        states,
        tuple(recorder.moments),
        baseline_bytes,
        gauge.method,
    )


class _Recorder:
    """Records memory as rows become active: each moment, and the activations that each row saves."""

    def __init__(self, gauge: Gauge, parameters: set[int]) -> None:
        self.saved: dict[str, int] = {}
        self.label_saved: dict[Labels, int] = {}
        self.moments: list[MemoryMoment] = []
        self._gauge, self._seen = gauge, set(parameters)
        self._row, self._phase = REST, "rest"
        self._labels: Labels = ()

    def mark(self, row: str, phase: str) -> None:
        """End the current moment, and make a row the active one."""
        now, peak = self._gauge.read()
        if self._row != INSTRUMENT:
            self.moments.append(MemoryMoment(self._row, self._phase, now, peak))
        (self._row, self._labels), self._phase = split_labels(row), phase

    def save(self, tensor: Any) -> Any:
        """Return the tensor as it is; count its memory for the active row, unless it was counted before."""
        address = tensor.untyped_storage().data_ptr()
        if address not in self._seen:
            self._seen.add(address)
            size = tensor.untyped_storage().nbytes()
            self.saved[self._row] = self.saved.get(self._row, 0) + size
            self.label_saved[self._labels] = self.label_saved.get(self._labels, 0) + size
        return tensor


class _GradientRecorder:
    """An optimiser that records the size of the gradients before it uses and clears them."""

    def __init__(self, optimizer: Any, rows: RowSet) -> None:
        self._optimizer, self._rows = optimizer, rows
        self.gradients: dict[str, int] = {}

    def step(self) -> None:
        self.gradients = _sum_by_row(self._optimizer, self._rows, lambda parameter: _bytes(parameter.grad))
        self._optimizer.step()

    def zero_grad(self, set_to_none: bool) -> None:
        self._optimizer.zero_grad(set_to_none=set_to_none)


@contextmanager
def _tensor_gauge(job: TrainingJob) -> Iterator[TensorGauge]:
    """Yield a gauge that counts the tensors of the model, of its optimiser, and of every operator from here on."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    gauge = TensorGauge()
    for tensor in [*job.model.parameters(), *job.model.buffers()]:
        gauge.add(tensor)
    for state in job.optimizer.state.values():
        for tensor in state.values():
            if isinstance(tensor, torch.Tensor):
                gauge.add(tensor)

    class Counting(TorchDispatchMode):  # PyTorch's only way to see every operator
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.device.type != "meta":
                    gauge.add(leaf)
            return result

    with Counting():  # type: ignore[no-untyped-call]
        yield gauge


def _sum_by_row(optimizer: Any, rows: RowSet, size: Any) -> dict[str, int]:
    sums: dict[str, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            row = rows.owners.get(id(parameter), REST)
            sums[row] = sums.get(row, 0) + size(parameter)
    return sums


def _state_bytes(optimizer: Any, parameter: Any) -> int:
    return sum(_bytes(state) for state in optimizer.state.get(parameter, {}).values() if hasattr(state, "numel"))


def _bytes(tensor: Any) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()
