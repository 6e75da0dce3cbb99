"""The operations of a torch network during a call: multiply-adds in all and by module, by torch's own counter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

OUTSIDE = "(outside modules)"
# A multiply-add is two floating-point operations, which is what torch's counter counts.
FLOPS_PER_MULTIPLY_ADD = 2


def count_multiply_adds(network: Any, call: Callable[[], object], depth: int) -> dict[str, Any]:
    """Multiply-adds of the call: in all, and by module of the network down to `depth`; or why they are not known.

    What runs in a method of a module other than its forward pass counts for the parts that are called there.
    """
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False, custom_mapping=_formulas())
    tally = _Tally(counter.get_total_flops)
    handles = [handle for name, module in network.named_modules() if name for handle in _watch(module, name, tally)]
    try:
        with _replays() as replayed, counter:
            call()
            tally.settle()
    finally:
        for handle in handles:
            handle.remove()
    if replayed:
        return {"multiply_adds": None, "reason": "part of the work is a captured CUDA graph, which torch cannot count"}
    found: dict[str, int] = {}
    for name, flops in tally.flops.items():
        path = name.split(".") if name else []
        for part in [".".join(path[: level + 1]) for level in range(min(depth, len(path)))] or (
            [OUTSIDE] * bool(depth)
        ):
            found[part] = found.get(part, 0) + flops // FLOPS_PER_MULTIPLY_ADD
    total = counter.get_total_flops() // FLOPS_PER_MULTIPLY_ADD
    if not total:
        return {"multiply_adds": None, "reason": "torch's counter saw none: a compiled or quantised model?"}
    return {"multiply_adds": total, "modules": {part: count for part, count in found.items() if count}}


@contextmanager
def _replays() -> Iterator[list[None]]:
    """A list that grows with each replay of a captured CUDA graph."""
    import torch

    seen: list[None] = []
    graphs: Any = torch.cuda.CUDAGraph
    replay = graphs.replay

    def watched(graph: Any) -> None:
        seen.append(None)
        replay(graph)

    graphs.replay = watched
    try:
        yield seen
    finally:
        graphs.replay = replay


class _Tally:
    """To which module the operations since the last look belong: the innermost that is running."""

    def __init__(self, total: Callable[[], int]) -> None:
        self.flops: dict[str, int] = {}
        self._total, self._seen = total, 0
        self._running = [""]

    def enter(self, name: str) -> None:
        self.settle()
        self._running.append(name)

    def leave(self) -> None:
        self.settle()
        self._running.pop()

    def settle(self) -> None:
        """Count what was done since the last look for the module that is running."""
        total = self._total()
        self.flops[self._running[-1]] = self.flops.get(self._running[-1], 0) + total - self._seen
        self._seen = total


def _watch(module: Any, name: str, tally: _Tally) -> list[Any]:
    return [
        module.register_forward_pre_hook(lambda *_: tally.enter(name)),
        # Called after an error too: whoever catches it must not be counted for this module.
        module.register_forward_hook(lambda *_: tally.leave(), always_call=True),
    ]


def _formulas() -> dict[Any, Callable[..., int]]:
    """The operations that torch's counter does not know: recurrent layers in one call, and attention on the CPU."""
    import torch

    aten = torch.ops.aten
    wanted: dict[str, Callable[..., int]] = {
        "_cudnn_rnn": _recurrent_layers,
        "mkldnn_rnn_layer": _recurrent_layer,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
    }
    return {getattr(aten, name): formula for name, formula in wanted.items() if hasattr(aten, name)}


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
