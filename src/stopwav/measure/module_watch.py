"""Who is at work at each moment of a training step, by hooks alone: nothing in the model is edited.

Forward, a module is at work from its pre-hook to its hook, less what modules inside it take. Backward, PyTorch runs a
graph of nodes, one for each operation of the forward pass, and numbers them as they are made: the number says during
whose forward a node was made. Of the nodes that are ready it runs that with the highest number, and whatever uses a
node's result has a higher one: so they run in falling order, and a hook before the last one that a row made in one go
says when the row's turn comes. So every moment belongs to exactly one row, in-place operations, modules that are called
twice and layers without inputs that need gradients included.

There are thousands of nodes, and a step may have to wait for the host: only those are hooked. The last node before a
module begins or ends is mostly that of what the module is given or returns. Where it is not, as in a loss with stages,
the graph is walked from its end down to there.
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
# How deep tensors are looked for: what a module is given may refer back to itself.
DEEPEST = 4
# What is at work where a phase begins.
_STARTS = {"data": "(data)", "forward": MODEL, "loss": LOSS, "backward": LOSS, "optimizer": OPTIMIZER, "rest": REST}


class ModuleWatch:
    """Hooks on the modules of a model while the `with` block lasts; every one of them is gone afterwards."""

    def __init__(
        self,
        rows: RowSet,
        sink: Sink,
        *,
        waits: bool = False,
        walks: bool = True,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.calls: dict[str, int] = {}
        self.recomputed: set[str] = set()
        # Modules that were called by a module that does not hold them, and by which.
        self.callers: dict[str, set[str]] = {}
        self.stages: set[str] = set()
        self._rows, self._sink, self._waits = rows, sink, waits
        # Whether all of the graph is walked: the way that is always right, and takes longer.
        self._walks = walks or waits
        self._now_ns = now_ns or perf_counter_ns
        self._row, self._phase = REST, "rest"
        self._stack: list[str] = []
        self._open_stages: list[str] = []
        # The number of the next node at each change, and the row that was at work from there on.
        self._numbers: list[int] = []
        self._makers: list[str] = []
        # From which number on the graph has to be walked, and the nodes that were hooked below it and did not run yet.
        self._walk_from: int | None = None
        self._awaited: set[int] = set()
        self._handles: list[Any] = []
        self._node_handles: list[Any] = []
        self._recomputing = 0
        self._exit = ExitStack()

    def __enter__(self) -> ModuleWatch:
        self._exit.enter_context(collect_marks(self._stage_tick))
        for module, path in self._rows.modules:
            enter = partial(self._enter_module, path)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
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

    @property
    def complete(self) -> bool:
        """Whether every node that was hooked has run: one that is not part of the loss does not, and hides its row."""
        return not self._awaited

    def before_backward(self, loss: Any) -> None:
        """Hook the graph of a loss."""
        self._switch(INSTRUMENT)
        down_to = 0 if self._walks else self._walk_from
        if down_to is not None:
            self._hook_graph([loss], self._numbers, self._makers, down_to)
        self._switch(REST)

    def _switch(self, row: str, *, force: bool = False, tensors: Any = ()) -> None:
        """Note that a row is at work from now on; `tensors` may hold the result of what was computed last."""
        if row == self._row and not force:
            return
        import torch

        # The number of the next node that this thread makes; PyTorch's own tracer reads it from here too.
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        if not self._walks and self._phase != "backward" and self._numbers and number > self._numbers[-1]:
            self._hook_last(number - 1, tensors)
        self._row = row
        self._sink(row, self._phase)
        self._numbers.append(number)
        self._makers.append(row)

    def _hook_last(self, number: int, tensors: Any) -> None:
        """Hook the node of this number, the last one that the row at work has made, or have it found later."""
        for tensor in _tensors(tensors):
            node = tensor.grad_fn
            if node is not None and node._sequence_nr() == number:
                self._awaited.add(number)
                handle = node.register_prehook(partial(self._enter_awaited, number, self._row))
                self._node_handles.append(handle)
                return
        if self._walk_from is None:
            self._walk_from = self._numbers[-1]

    def _enter_awaited(self, number: int, row: str, gradients: Any) -> None:
        if self._phase != "backward":
            # A loss that takes a gradient by itself, such as a penalty on it.
            return
        self._awaited.discard(number)
        self._enter_node(row, gradients)

    def _enter_module(self, path: str, module: Any, arguments: Any, keywords: Any) -> None:
        del module
        if self._phase == "backward":
            self._begin_recompute(path)
        else:
            self.calls[path] = self.calls.get(path, 0) + 1
            self._note_caller(path)
        self._stack.append(self._row)
        self._switch(path, tensors=(arguments, keywords))

    def _leave_module(self, path: str, module: Any, arguments: Any, result: Any) -> None:
        del path, module, arguments
        if not self._stack:
            return
        self._switch(self._stack.pop(), tensors=result)
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
            import torch

            # Numbers are counted for each thread, and that of the backward pass may be another.
            self._numbers, self._makers = [], []
            # The node that has this computed again may go backward through it at once; then it is itself again.
            node = torch._C._current_autograd_node()
            self._node_handles.append(node.register_hook(partial(self._leave_node, self._row)))
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

    def _hook_graph(self, roots: Iterable[Any], numbers: list[int], makers: list[str], down_to: int = 0) -> None:
        """Hook the nodes at which another row's turn comes, of those with this number or a higher one."""
        at_work = ""
        for number, node in _nodes_of(roots, down_to):
            if number == _LEAF:
                if self._waits:
                    owner = self._rows.owners.get(id(getattr(node, "variable", None)), REST)
                    self._node_handles.append(node.register_prehook(partial(self._enter_node, owner)))
                    # What follows the last gradient is the wait for those of the other processes.
                    self._node_handles.append(node.register_hook(partial(self._leave_node, COMMUNICATION)))
                continue
            place = bisect_right(numbers, number) - 1
            row = makers[place] if place >= 0 else REST
            if row != at_work or self._waits:
                self._node_handles.append(node.register_prehook(partial(self._enter_node, row)))
            at_work = row

    def _enter_node(self, row: str, gradients: Any) -> None:
        del gradients
        if row != self._row:
            self._switch(row)

    def _leave_node(self, row: str, inputs: Any, outputs: Any) -> None:
        del inputs, outputs
        self._switch(row)


def _nodes_of(roots: Iterable[Any], down_to: int) -> list[tuple[int, Any]]:
    """The nodes of the graph behind some tensors, from the highest number down to a number: leaves first."""
    found = []
    seen: set[Any] = {None}
    open_nodes = [root.grad_fn for root in roots]
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        number = node._sequence_nr()
        if number >= down_to:
            found.append((number, node))
            open_nodes += [following for following, _ in node.next_functions]
    found.sort(key=itemgetter(0), reverse=True)
    return found


def _tensors(value: Any, depth: int = DEEPEST) -> Iterator[Any]:
    """The tensors with a graph in what a module was given or returned."""
    if hasattr(value, "grad_fn"):
        yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    elif is_dataclass(value) and not isinstance(value, type):
        inside = (getattr(value, one.name, None) for one in fields(value))
    for one in inside if depth else ():
        yield from _tensors(one, depth - 1)
