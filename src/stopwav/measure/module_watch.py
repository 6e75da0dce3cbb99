"""Who is at work at each moment of a training step, by hooks alone: nothing in the model is edited.

Forward, a module is at work from its pre-hook to its hook, less what modules inside it take. Backward, PyTorch runs a
graph of nodes, one for each operation of the forward pass, and numbers them as they are made: the number says during
whose forward a node was made, and a hook before each node says when its turn comes. So every moment belongs to exactly
one row, in-place operations, modules that are called twice and layers without inputs that need gradients included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from operator import itemgetter
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from stopwav.measure.module_rows import COMMUNICATION, INSTRUMENT, LOSS, MODEL, OPTIMIZER, REST, RowSet
from stopwav.measure.stages import collect_marks, open_stage

# Told of every change: which row is at work from now on, and in which phase of the step.
Sink = Callable[[str, str], None]
# A node that adds to a parameter's gradient has this number: it runs as soon as it can.
_LEAF = 2**64 - 1
# What is at work where a phase begins.
_STARTS = {"data": "(data)", "forward": MODEL, "loss": LOSS, "backward": LOSS, "optimizer": OPTIMIZER, "rest": REST}


class ModuleWatch:
    """Hooks on the modules of a model while the `with` block lasts; every one of them is gone afterwards."""

    def __init__(
        self, rows: RowSet, sink: Sink, *, waits: bool = False, now_ns: Callable[[], int] | None = None
    ) -> None:
        self.calls: dict[str, int] = {}
        self.recomputed: set[str] = set()
        # Modules that were called by a module that does not hold them, and by which.
        self.callers: dict[str, set[str]] = {}
        self.stages: set[str] = set()
        self._rows, self._sink, self._waits = rows, sink, waits
        self._now_ns = now_ns or perf_counter_ns
        self._row, self._phase = REST, "rest"
        self._stack: list[str] = []
        self._open_stages: list[str] = []
        # The number of the next node at each change, and the row that was at work from there on.
        self._numbers: list[int] = []
        self._makers: list[str] = []
        self._handles: list[Any] = []
        self._node_handles: list[Any] = []
        self._recomputing = 0
        self._exit = ExitStack()

    def __enter__(self) -> ModuleWatch:
        self._exit.enter_context(collect_marks(self._stage_tick))
        for module, path in self._rows.modules:
            self._handles.append(module.register_forward_pre_hook(partial(self._enter_module, path)))
            # Also where the forward breaks off, as a checkpoint's second one does once it has what it needs.
            self._handles.append(module.register_forward_hook(partial(self._leave_module, path), always_call=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in [*self._handles, *self._node_handles]:
            handle.remove()
        self._handles.clear()
        self._node_handles.clear()
        self._exit.close()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase of the step."""
        self._phase = name
        self._switch(_STARTS[name], force=True)
        try:
            yield
        finally:
            self._phase = "rest"
            self._stack.clear()
            self._open_stages.clear()
            self._recomputing = 0
            self._switch(REST, force=True)

    def before_backward(self, loss: Any) -> None:
        """Hook the graph of a loss."""
        self._switch(INSTRUMENT)
        self._hook_graph([loss], self._numbers, self._makers)
        self._switch(REST)

    def _switch(self, row: str, *, force: bool = False) -> None:
        if row == self._row and not force:
            return
        self._row = row
        self._sink(row, self._phase)
        # The number of the next node that this thread makes; PyTorch's own tracer reads it from here too.
        import torch

        self._numbers.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self._makers.append(row)

    def _enter_module(self, path: str, module: Any, arguments: Any) -> None:
        del module, arguments
        if self._phase == "backward":
            self._begin_recompute(path)
        else:
            self.calls[path] = self.calls.get(path, 0) + 1
            self._note_caller(path)
        self._stack.append(self._row)
        self._switch(path)

    def _leave_module(self, path: str, module: Any, arguments: Any, result: Any) -> None:
        del path, module, arguments
        if not self._stack:
            return
        self._switch(self._stack.pop())
        if self._phase == "backward":
            self._recomputing -= 1
            if not self._recomputing:
                # A checkpoint of the older kind runs this graph within the backward pass.
                outer = self._row
                self._switch(INSTRUMENT)
                self._hook_graph(_tensors(result), self._numbers, self._makers)
                self._switch(outer)

    def _begin_recompute(self, path: str) -> None:
        self.recomputed.add(path)
        if not self._recomputing:
            # Numbers are counted for each thread, and that of the backward pass may be another.
            self._numbers, self._makers = [], []
        self._recomputing += 1

    def _note_caller(self, path: str) -> None:
        caller = self._row.partition(":")[0]
        inside = path.startswith(f"{caller}.") or caller in (MODEL, path)
        if not inside and not caller.startswith("("):
            self.callers.setdefault(path, set()).add(caller)

    def _stage_tick(self) -> int:
        """The time, as `stage` asks for it where it begins and where it ends."""
        path = open_stage()
        if self._open_stages and self._open_stages[-1] == path:
            self._open_stages.pop()
            if self._stack:
                self._switch(self._stack.pop())
        else:
            name = path.removeprefix(f"{self._open_stages[-1]}/") if self._open_stages else path
            self._open_stages.append(path)
            row = f"{self._row}/{name}" if ":" in self._row else f"{self._row}:{name}"
            if self._phase != "backward":
                self.calls[row] = self.calls.get(row, 0) + 1
            self.stages.add(row)
            self._stack.append(self._row)
            self._switch(row)
        return self._now_ns()

    def _hook_graph(self, roots: Iterable[Any], numbers: list[int], makers: list[str]) -> None:
        """Hook the nodes at which another row's turn may come.

        A hook costs about as much as launching a kernel, and there are thousands of nodes. PyTorch runs those that are
        ready from the highest number down, and whatever uses a node's result has a higher one: so they run in order,
        but for leaves, which run at once, and for what a node written in Python does meanwhile.
        """
        from torch.autograd.function import BackwardCFunction

        leaves, inner = _nodes_of(roots)
        hooked = set()
        at_work, sure = "", False
        for number, node, following in inner:
            place = bisect_right(numbers, number) - 1
            row = makers[place] if place >= 0 else REST
            if row != at_work or not sure:
                self._hook_node(node, row)
            at_work, sure = row, not (self._waits or isinstance(node, BackwardCFunction))
            for leaf, _ in following:
                if leaf not in leaves:
                    continue
                # A leaf that is no parameter of the model, such as an input, belongs to nobody.
                owner = self._rows.owners.get(id(getattr(leaf, "variable", None)), REST)
                if owner != row or self._waits:
                    sure = False
                    if leaf not in hooked:
                        hooked.add(leaf)
                        self._hook_node(leaf, owner)

    def _hook_node(self, node: Any, row: str) -> None:
        self._node_handles.append(node.register_prehook(partial(self._enter_node, row)))
        if self._waits and node._sequence_nr() == _LEAF:
            # What follows the last gradient is the wait for those of the other processes.
            self._node_handles.append(node.register_hook(self._leave_leaf))

    def _enter_node(self, row: str, gradients: Any) -> None:
        del gradients
        if row != self._row:
            self._switch(row)

    def _leave_leaf(self, inputs: Any, outputs: Any) -> None:
        del inputs, outputs
        self._switch(COMMUNICATION)


def _nodes_of(roots: Iterable[Any]) -> tuple[set[Any], list[tuple[int, Any, Any]]]:
    """The leaves of the graph behind some tensors; its other nodes by falling number, each with what follows it."""
    leaves, inner = set(), []
    seen: set[Any] = {None}
    open_nodes = [root.grad_fn for root in roots]
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        number, following = node._sequence_nr(), node.next_functions
        if number == _LEAF:
            leaves.add(node)
        else:
            inner.append((number, node, following))
            open_nodes += [one for one, _ in following]
    inner.sort(key=itemgetter(0), reverse=True)
    return leaves, inner


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors with a graph in what a module returned."""
    if hasattr(value, "grad_fn"):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _tensors(getattr(value, one.name))
