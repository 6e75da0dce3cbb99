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
from collections import Counter
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
        self.recomputed: set[str] = set()
        self.stages: set[str] = set()
        self._rows, self._sink, self._waits = rows, sink, waits
        # Whether all of the graph is walked: the way that is always right, and takes longer.
        self._walks = walks or waits
        self._now_ns = now_ns or perf_counter_ns
        self._row, self._phase = REST, "rest"
        self._stack: list[str] = []
        self._open_stages: list[str] = []
        # How often each row was begun from which other.
        self._passages: Counter[tuple[str, str]] = Counter()
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
        import torch

        # The number of the next node that this thread makes; PyTorch's own tracer reads it from here too.
        self._next_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
        self._forget_makers()
        self._exit.enter_context(collect_marks(self._stage_tick))
        for module, path in self._rows.modules:
            enter = partial(self._enter_module, path)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            # Also where the forward breaks off, as a checkpoint's second one does once it has what it needs.
            self._handles.append(module.register_forward_hook(self._leave_module, always_call=True))
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
        self._begin(_STARTS[name])
        try:
            yield
        finally:
            self._phase = "rest"
            self._stack.clear()
            self._open_stages.clear()
            self._recomputing = 0
            self._begin(REST)

    @property
    def complete(self) -> bool:
        """Whether every node that was hooked has run: one that is not part of the loss does not, and hides its row."""
        return not self._awaited

    @property
    def calls(self) -> dict[str, int]:
        """How often each module was called and each stage passed, recomputing left out."""
        counts: Counter[str] = Counter()
        for (row, _), count in self._passages.items():
            counts[row] += count
        return dict(counts)

    @property
    def callers(self) -> dict[str, set[str]]:
        """Modules that were called by a module that does not hold them, and by which."""
        found: dict[str, set[str]] = {}
        for path, row in self._passages:
            caller = row.partition(":")[0]
            inside = path.startswith(f"{caller}.") or caller in (MODEL, path) or path in self.stages
            if not inside and not caller.startswith("("):
                found.setdefault(path, set()).add(caller)
        return found

    def before_backward(self, loss: Any) -> None:
        """Hook the graph of a loss."""
        self._begin(INSTRUMENT)
        down_to = 0 if self._walks else self._walk_from
        if down_to is not None:
            self._hook_graph([loss], down_to)
        self._begin(REST)

    def _begin(self, row: str, last: Any = None) -> None:
        """Note that a row is at work from now on; `last` may hold the result of what was computed until now."""
        number = self._next_number()
        if number > self._numbers[-1] and not self._walks and self._phase != "backward":
            self._hook_last(number - 1, last)
        self._row = row
        self._sink(row, self._phase)
        self._numbers.append(number)
        self._makers.append(row)

    def _hook_last(self, number: int, last: Any) -> None:
        """Hook the node of this number, the last one that the row at work has made, or have it found later."""
        node = _node_of(last, number)
        if node is not None:
            self._awaited.add(number)
            self._node_handles.append(node.register_prehook(partial(self._enter_node, number, self._row)))
        elif self._walk_from is None:
            self._walk_from = self._numbers[-1]

    def _enter_module(self, path: str, module: Any, arguments: Any, keywords: Any) -> None:
        del module
        outer = self._row
        if self._phase == "backward":
            self._begin_recompute(path)
        else:
            self._passages[path, outer] += 1
        self._stack.append(outer)
        if path != outer:
            self._begin(path, (arguments, keywords) if keywords else arguments)

    def _leave_module(self, module: Any, arguments: Any, result: Any) -> None:
        del module, arguments
        if not self._stack:
            return
        outer = self._stack.pop()
        if outer != self._row:
            self._begin(outer, result)
        if self._phase == "backward":
            self._recomputing -= 1
            if not self._recomputing:
                # A checkpoint of the older kind runs this graph within the backward pass.
                outer = self._row
                self._begin(INSTRUMENT)
                self._hook_graph(_tensors(result))
                self._begin(outer)

    def _forget_makers(self) -> None:
        self._numbers, self._makers = [self._next_number()], [self._row]

    def _begin_recompute(self, path: str) -> None:
        self.recomputed.add(path)
        if not self._recomputing:
            import torch

            # Numbers are counted for each thread, and that of the backward pass may be another.
            self._forget_makers()
            # The node that has this computed again may go backward through it at once; then it is itself again.
            node = torch._C._current_autograd_node()
            self._node_handles.append(node.register_hook(partial(self._leave_node, self._row)))
        self._recomputing += 1

    def _stage_tick(self) -> int:
        """The time, as `stage` asks for it where it begins and where it ends."""
        path = open_stage()
        if self._open_stages and self._open_stages[-1] == path:
            self._open_stages.pop()
            if self._stack:
                self._begin(self._stack.pop())
        else:
            name = path.removeprefix(f"{self._open_stages[-1]}/") if self._open_stages else path
            self._open_stages.append(path)
            row = f"{self._row}/{name}" if ":" in self._row else f"{self._row}:{name}"
            if self._phase != "backward":
                self._passages[row, self._row] += 1
            self.stages.add(row)
            self._stack.append(self._row)
            self._begin(row)
        return self._now_ns()

    def _hook_graph(self, roots: Iterable[Any], down_to: int = 0) -> None:
        """Hook the nodes at which another row's turn comes, of those with this number or a higher one."""
        at_work = ""
        for number, node in _nodes_of(roots, down_to):
            if number == _LEAF:
                if self._waits:
                    owner = self._rows.owners.get(id(getattr(node, "variable", None)), REST)
                    self._node_handles.append(node.register_prehook(partial(self._enter_node, number, owner)))
                    # What follows the last gradient is the wait for those of the other processes.
                    self._node_handles.append(node.register_hook(partial(self._leave_node, COMMUNICATION)))
                continue
            place = bisect_right(self._numbers, number) - 1
            row = self._makers[place] if place >= 0 else REST
            if row != at_work or self._waits:
                self._node_handles.append(node.register_prehook(partial(self._enter_node, number, row)))
            at_work = row

    def _enter_node(self, number: int, row: str, gradients: Any) -> None:
        del gradients
        # A loss may take a gradient by itself, such as for a penalty on it: that is no part of the backward pass.
        if self._phase == "backward":
            self._awaited.discard(number)
            if row != self._row:
                self._row = row
                self._sink(row, "backward")

    def _leave_node(self, row: str, inputs: Any, outputs: Any) -> None:
        del inputs, outputs
        self._row = row
        self._sink(row, "backward")


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


def _node_of(value: Any, number: int) -> Any:
    """The node of that number, where it made one of the tensors in a value."""
    for tensor in (value,) if hasattr(value, "grad_fn") else _tensors(value):
        node = tensor.grad_fn
        if node is not None and node._sequence_nr() == number:
            return node
    return None


def _tensors(value: Any, depth: int = DEEPEST) -> Iterator[Any]:
    """The tensors with a graph in what a module was given or returned."""
    if hasattr(value, "grad_fn"):
        yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, Mapping):
        inside = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        inside = (getattr(value, one.name, None) for one in fields(value))
    for one in inside if depth else ():
        yield from _tensors(one, depth - 1)
