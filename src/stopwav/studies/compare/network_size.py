"""The size of a torch network: its parameters, and the multiply-adds of a call, in total and by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

ROOT = "(itself)"
OUTSIDE = "(outside modules)"
# A multiply-add is two floating-point operations, which is what torch's counter counts.
FLOPS_PER_MULTIPLY_ADD = 2


def count_parameters(network: Any, depth: int) -> dict[str, Any]:
    """Return parameters, trainable ones and bytes, in total and by module down to `depth`, and the shared tensors.

    A tensor that several modules share counts once, for the first of them, and is listed with all its names: the parts
    add up to the total.
    """
    names: dict[object, list[str]] = {}
    tensors: dict[object, Any] = {}
    for name, tensor in network.named_parameters(remove_duplicate=False):
        identity = _identity(tensor)
        names.setdefault(identity, []).append(name)
        tensors.setdefault(identity, tensor)
    counted = {names[identity][0]: tensor for identity, tensor in tensors.items()}
    return {
        **_sums(counted),
        "modules": [{"name": part, **_sums(own)} for part, own in _by_module(counted, depth).items()],
        "shared": [
            {"names": names[identity], "parameters": tensors[identity].numel()}
            for identity in names
            if len(names[identity]) > 1
        ],
    }


def _sums(tensors: Mapping[str, Any]) -> dict[str, int]:
    return {
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        "trainable": sum(tensor.numel() for tensor in tensors.values() if tensor.requires_grad),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
    }


def _by_module(counted: Mapping[str, Any], depth: int) -> dict[str, dict[str, Any]]:
    """The tensors of each module, by its path, at every level down to `depth`."""
    modules: dict[str, dict[str, Any]] = {}
    for name, tensor in counted.items():
        path = name.split(".")[:-1]
        levels = range(1, min(depth, len(path)) + 1)
        for part in [".".join(path[:level]) for level in levels] or ([ROOT] if depth else []):
            modules.setdefault(part, {})[name] = tensor
    return modules


def _identity(tensor: Any) -> object:
    """The same key for all names of a tensor: the object, or its place in memory."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    return tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.numel()


def count_multiply_adds(network: Any, call: Callable[[], object], depth: int) -> dict[str, Any]:
    """Return the multiply-adds of the call, in total and by module down to `depth`; or why they are not known.

    A method of a module other than its forward pass counts for the modules that it calls.
    """
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False, custom_mapping=_formulas())
    tally = _Tally(counter.get_total_flops)
    handles = [handle for name, module in network.named_modules() if name for handle in _hooks(module, name, tally)]
    try:
        with _replays() as replayed, counter:
            call()
            tally.update()
    finally:
        for handle in handles:
            handle.remove()
    if replayed:
        return {"multiply_adds": None, "reason": "part of the work is a captured CUDA graph, which torch cannot count"}
    modules: dict[str, int] = {}
    for name, flops in tally.flops.items():
        path = name.split(".") if name else []
        for part in [".".join(path[: level + 1]) for level in range(min(depth, len(path)))] or (
            [OUTSIDE] * bool(depth)
        ):
            modules[part] = modules.get(part, 0) + flops // FLOPS_PER_MULTIPLY_ADD
    total = counter.get_total_flops() // FLOPS_PER_MULTIPLY_ADD
    if not total:
        return {"multiply_adds": None, "reason": "torch's counter saw none: a compiled or quantised model?"}
    return {"multiply_adds": total, "modules": {part: count for part, count in modules.items() if count}}


@contextmanager
def _replays() -> Iterator[list[None]]:
    """Yield a list that grows with each replay of a captured CUDA graph."""
    import torch

    replays: list[None] = []
    graphs: Any = torch.cuda.CUDAGraph
    replay = graphs.replay

    def count_replay(graph: Any) -> None:
        replays.append(None)
        replay(graph)

    graphs.replay = count_replay
    try:
        yield replays
    finally:
        graphs.replay = replay


class _Tally:
    """The operations of each module: they count for the innermost that is running."""

    def __init__(self, total: Callable[[], int]) -> None:
        self.flops: dict[str, int] = {}
        self._total, self._counted = total, 0
        self._running = [""]

    def enter(self, name: str) -> None:
        self.update()
        self._running.append(name)

    def leave(self) -> None:
        self.update()
        self._running.pop()

    def update(self) -> None:
        """Count the operations since the last update for the module that is running."""
        total = self._total()
        self.flops[self._running[-1]] = self.flops.get(self._running[-1], 0) + total - self._counted
        self._counted = total


def _hooks(module: Any, name: str, tally: _Tally) -> list[Any]:
    return [
        module.register_forward_pre_hook(lambda *_: tally.enter(name)),
        # Called after an error too: what follows must not count for this module.
        module.register_forward_hook(lambda *_: tally.leave(), always_call=True),
    ]


def _formulas() -> dict[Any, Callable[..., int]]:
    """Formulas for what torch's counter does not know: recurrent layers in one call, and attention on the CPU."""
    import torch

    aten = torch.ops.aten
    formulas: dict[str, Callable[..., int]] = {
        "_cudnn_rnn": _recurrent_layers,
        "mkldnn_rnn_layer": _recurrent_layer,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
    }
    return {getattr(aten, name): formula for name, formula in formulas.items() if hasattr(aten, name)}


def _recurrent_layers(inputs: Sequence[int], weights: Sequence[Sequence[int]], *_: Any, **__: Any) -> int:
    """Every step of every sequence goes through every matrix of every layer and direction once."""
    steps = prod(inputs[:-1])
    return FLOPS_PER_MULTIPLY_ADD * steps * sum(prod(shape) for shape in weights if len(shape) > 1)


def _recurrent_layer(inputs: Sequence[int], *shapes: Any, **_: Any) -> int:
    """The same for one layer in one direction, whose two matrices come first."""
    return _recurrent_layers(inputs, shapes[:2])


def _attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    """Scores of every query with every key, and the values summed by them."""
    *batch, queries, size = query
    return FLOPS_PER_MULTIPLY_ADD * prod(batch) * queries * key[-2] * (size + value[-1])
