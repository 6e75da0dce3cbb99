"""What a step holds in memory, and for whom: tensors kept for the backward pass, and the peak with its place.

Taken in a pass of its own: on CUDA by the allocator's counters, which are exact; elsewhere by counting the tensors that
operators return, which leaves out what an operator allocates for itself and frees again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from stopwav.measure.module_rows import INSTRUMENT, RowSet
from stopwav.measure.module_watch import ModuleWatch
from stopwav.measure.training_step import TrainingJob, run_step


@dataclass(frozen=True)
class MemoryMoment:
    """A stretch of a step in which one row was at work: bytes at its end, and the most within it."""

    row: str
    phase: str
    end_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class StepMemory:
    """What a step held: by row for the backward pass, gradients and optimiser state; and its moments in order."""

    held: dict[str, int]
    gradients: dict[str, int]
    states: dict[str, int]
    moments: tuple[MemoryMoment, ...]
    baseline_bytes: int
    method: str

    @property
    def peak(self) -> MemoryMoment:
        """The moment with the most memory in use."""
        return max(self.moments, key=lambda one: one.peak_bytes)


class Gauge(Protocol):
    """Something that says how much memory is in use."""

    method: str

    def read(self) -> tuple[int, int]: ...  # now, and the most since the last reading


class CudaGauge:
    """The counters of PyTorch's CUDA allocator."""

    method = "CUDA allocator"

    def __init__(self, device: str) -> None:
        self._device = device

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading."""
        import torch

        most = torch.cuda.max_memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return torch.cuda.memory_allocated(self._device), most


class TensorGauge:
    """A count of the live tensors that operators have returned."""

    method = "tensors counted"

    def __init__(self) -> None:
        self._live, self._most = 0, 0
        self._known: set[int] = set()

    def add(self, tensor: Any) -> None:
        """Count a tensor's memory, once, until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        size = storage.nbytes()
        self._live += size
        self._most = max(self._most, self._live)
        weakref.finalize(storage, self._free, key, size)

    def read(self) -> tuple[int, int]:
        """Bytes now, and the most since the last reading."""
        most, self._most = max(self._most, self._live), self._live
        return self._live, most

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size


def measure_step_memory(job: TrainingJob, rows: RowSet, index: int) -> StepMemory:
    """The memory of one step of training on the batch of that number; its time is not taken."""
    import torch

    with ExitStack() as stack:
        if job.device.startswith("cuda"):
            torch.cuda.synchronize(job.device)
            gauge: Gauge = CudaGauge(job.device)
        else:
            gauge = stack.enter_context(_counted(job))
        baseline_bytes, _ = gauge.read()
        ledger = _Ledger(gauge, {one.untyped_storage().data_ptr() for one in job.model.parameters()})
        watch = stack.enter_context(ModuleWatch(rows, ledger.mark))
        optimizer = _Halfway(job.optimizer, rows)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(ledger.keep, _same))
        run_step(TrainingJob(job.model, job.make_batch, job.loss_fn, optimizer, job.device, job.autocast), index, watch)
        ledger.mark("", "")
    states = _sum_by_row(job.optimizer, rows, lambda parameter: _state_bytes(job.optimizer, parameter))
    return StepMemory(ledger.held, optimizer.gradients, states, tuple(ledger.moments), baseline_bytes, gauge.method)


class _Ledger:
    """Who holds what, kept as rows come and go."""

    def __init__(self, gauge: Gauge, parameters: set[int]) -> None:
        self.held: dict[str, int] = {}
        self.moments: list[MemoryMoment] = []
        self._gauge, self._seen = gauge, set(parameters)
        self._row, self._phase = "(rest)", "rest"

    def mark(self, row: str, phase: str) -> None:
        """The stretch that ends here, and the row that is at work from now on."""
        now, most = self._gauge.read()
        if self._row != INSTRUMENT:
            self.moments.append(MemoryMoment(self._row, self._phase, now, most))
        self._row, self._phase = row, phase

    def keep(self, tensor: Any) -> Any:
        """The tensor as it is; its memory is counted for the row that keeps it, unless another one did."""
        place = tensor.untyped_storage().data_ptr()
        if place not in self._seen:
            self._seen.add(place)
            self.held[self._row] = self.held.get(self._row, 0) + tensor.untyped_storage().nbytes()
        return tensor


class _Halfway:
    """An optimiser that notes the gradients before it uses them and clears them."""

    def __init__(self, optimizer: Any, rows: RowSet) -> None:
        self._optimizer, self._rows = optimizer, rows
        self.gradients: dict[str, int] = {}

    def step(self) -> None:
        self.gradients = _sum_by_row(self._optimizer, self._rows, lambda one: _bytes(one.grad))
        self._optimizer.step()

    def zero_grad(self, set_to_none: bool) -> None:
        self._optimizer.zero_grad(set_to_none=set_to_none)


@contextmanager
def _counted(job: TrainingJob) -> Iterator[TensorGauge]:
    """A gauge that counts what the model, its optimiser, and every operator from here on hold."""
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

    class Counting(TorchDispatchMode):  # the one way PyTorch has of being told of every operator
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for one in tree_leaves(result):
                if isinstance(one, torch.Tensor) and one.device.type != "meta":
                    gauge.add(one)
            return result

    with Counting():  # type: ignore[no-untyped-call]
        yield gauge


def _same(kept: Any) -> Any:
    return kept


def _sum_by_row(optimizer: Any, rows: RowSet, size: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            row = rows.owners.get(id(parameter), "(rest)")
            found[row] = found.get(row, 0) + size(parameter)
    return found


def _state_bytes(optimizer: Any, parameter: Any) -> int:
    return sum(_bytes(one) for one in optimizer.state.get(parameter, {}).values() if hasattr(one, "numel"))


def _bytes(tensor: Any) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()
