"""The active row at each moment of a training step, by hooks alone: the model is not edited.

Forward, a module is active from its pre-hook to its hook, except while modules inside it are. Backward, PyTorch runs a
graph of nodes, one for each operation of the forward pass, numbered in the order in which they were created: the number
tells in whose forward a node was created. Of the nodes that are ready PyTorch runs the one with the highest number, and
every node that uses another's result has a higher number than that one. So nodes run in descending order, and a hook
before the last node that a row created without interruption tells when the row becomes active. Every moment therefore
belongs to exactly one row, also with in-place operations, modules that are called twice, and layers whose inputs need
no gradients.

There are thousands of nodes, and a step may have to wait for the host, so only those are hooked. The last node before a
module begins or ends is usually that of its input or its output. Where it is not, as in a loss with stages, the graph
is walked from its end down to there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from operator import itemgetter
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from stopwav.measure.labels import Labels, split_labels, watch_labels, with_labels
from stopwav.measure.module_rows import COMMUNICATION, INSTRUMENT, MODEL, PHASE_ROWS, REST, RowSet
from stopwav.measure.stages import collect_marks, open_stage

# Called at every change with the row that is active from now on, with its labels, and the phase of the step.
OnChange = Callable[[str, str], None]
# A node that adds to a parameter's gradient has this number: it runs as soon as it can.
_LEAF = 2**64 - 1
# How deep tensors are searched for: a module's input may refer back to itself.
DEEPEST = 4


class ModuleProfiler:
    """Hooks on the modules of a model for the duration of the `with` block; all are removed afterwards.

    `walk_graph` walks the whole graph: always right, but slower. `distributed` does so too, and charges the wait for
    the gradients of other processes to a row of its own.
    """

    def __init__(
        self,
        rows: RowSet,
        on_change: OnChange,
        *,
        distributed: bool = False,
        walk_graph: bool = True,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.recomputed: set[str] = set()
        self.stages: set[str] = set()
        # How often each label was entered, by its name after those around it.
        self.label_calls: Counter[Labels] = Counter()
        self._rows, self._on_change, self._distributed = rows, on_change, distributed
        self._walk_graph = walk_graph or distributed
        self._now_ns = now_ns or perf_counter_ns
        self._row, self._phase = REST, "rest"
        self._stack: list[str] = []
        self._open_stages: list[str] = []
        self._labels_around: dict[str, Labels] = {}
        # How often each row was entered from which other.
        self._entries: Counter[tuple[str, str]] = Counter()
        # The number of the next node at each change, and the row that was active from there on.
        self._numbers: list[int] = []
        self._creators: list[str] = []
        # The number from which the graph has to be walked, and the hooked nodes below it that have not run yet.
        self._walk_from: int | None = None
        self._awaited: set[int] = set()
        self._handles: list[Any] = []
        self._node_handles: list[Any] = []
        self._recomputing = 0
        self._exit = ExitStack()

    def __enter__(self) -> ModuleProfiler:
        import torch

        # The number of the next node that this thread creates; PyTorch's own tracer reads it from here too.
        self._next_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
        self._forget_creators()
        self._thread = get_ident()
        self._exit.enter_context(collect_marks(self._stage_tick))
        self._exit.enter_context(watch_labels(self._enter_label, self._leave_label))
        for module, path in self._rows.modules:
            enter = partial(self._enter_module, path)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            # Also where the forward is cut short, as a checkpoint's second one is once it has what it needs.
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
        self._begin(PHASE_ROWS[name])
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
        """Whether every hooked node has run: one that the loss does not use never runs, and hides its row."""
        return not self._awaited

    @property
    def calls(self) -> dict[str, int]:
        """How often each module was called and each stage executed, without recomputation."""
        counts: Counter[str] = Counter()
        for (row, _), count in self._entries.items():
            counts[row] += count
        return dict(counts)

    @property
    def callers(self) -> dict[str, set[str]]:
        """Modules that were called by a module they are not part of, and by which."""
        callers: dict[str, set[str]] = {}
        for path, row in self._entries:
            caller = row.partition(":")[0]
            inside = path.startswith(f"{caller}.") or caller in (MODEL, path) or path in self.stages
            if not inside and not caller.startswith("("):
                callers.setdefault(path, set()).add(caller)
        return callers

    def before_backward(self, loss: Any) -> None:
        """Hook the graph of a loss."""
        self._begin(INSTRUMENT)
        down_to = 0 if self._walk_graph else self._walk_from
        if down_to is not None:
            self._hook_graph([loss], down_to)
        self._begin(REST)

    def _begin(self, row: str, value: Any = None) -> None:
        """Make a row the active one; `value` may contain the result of the last operation."""
        number = self._next_number()
        if number > self._numbers[-1] and not self._walk_graph and self._phase != "backward":
            self._hook_last(number - 1, value)
        self._row = row
        self._on_change(row, self._phase)
        self._numbers.append(number)
        self._creators.append(row)

    def _hook_last(self, number: int, value: Any) -> None:
        """Hook the last node that the active row created; where `value` does not lead to it, walk the graph later."""
        node = _node_of(value, number)
        if node is not None:
            self._awaited.add(number)
            self._node_handles.append(node.register_prehook(partial(self._enter_node, number, self._row)))
        elif self._walk_from is None:
            self._walk_from = self._numbers[-1]

    def _enter_module(self, path: str, module: Any, arguments: Any, keywords: Any) -> None:
        del module
        outer, labels = split_labels(self._row)
        if self._phase == "backward":
            self._begin_recompute(path)
            # Of the labels of the node that runs, some may be inside the module.
            labels = self._labels_around.get(path, ())
        else:
            self._entries[path, outer] += 1
            self._labels_around[path] = labels
        self._stack.append(self._row)
        row = with_labels(path, labels)
        if row != self._row:
            self._begin(row, (arguments, keywords) if keywords else arguments)

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

    def _forget_creators(self) -> None:
        self._numbers, self._creators = [self._next_number()], [self._row]

    def _begin_recompute(self, path: str) -> None:
        self.recomputed.add(path)
        if not self._recomputing:
            import torch

            # Numbers are counted per thread, and the backward pass may run in another one.
            self._forget_creators()
            # The node that triggers this recomputation may go backward through it at once; then its own row is back.
            node = torch._C._current_autograd_node()
            self._node_handles.append(node.register_hook(partial(self._leave_node, self._row)))
        self._recomputing += 1

    def _stage_tick(self) -> int:
        """Return the time, as `stage` asks for it where it begins and where it ends, and change the active row."""
        path = open_stage()
        if self._open_stages and self._open_stages[-1] == path:
            self._open_stages.pop()
            if self._stack:
                self._begin(self._stack.pop())
        else:
            name = path.removeprefix(f"{self._open_stages[-1]}/") if self._open_stages else path
            self._open_stages.append(path)
            outer, labels = split_labels(self._row)
            row = f"{outer}/{name}" if ":" in outer else f"{outer}:{name}"
            if self._phase != "backward":
                self._entries[row, outer] += 1
            self.stages.add(row)
            self._stack.append(self._row)
            self._begin(with_labels(row, labels))
        return self._now_ns()

    def _enter_label(self, name: str) -> bool:
        """Let the active row carry one more label, and return whether it does: labels of other threads do not count."""
        # Backward, a forward that is run again has labels, in whichever thread.
        counted = self._recomputing > 0 if self._phase == "backward" else get_ident() == self._thread
        if counted:
            row, labels = split_labels(self._row)
            if self._phase != "backward":
                self.label_calls[(*labels, name)] += 1
            self._stack.append(self._row)
            self._begin(with_labels(row, (*labels, name)))
        return counted

    def _leave_label(self) -> None:
        if self._stack:
            self._begin(self._stack.pop())

    def _hook_graph(self, roots: Iterable[Any], down_to: int = 0) -> None:
        """Hook the nodes at which another row becomes active, down to this number."""
        active = ""
        for number, node in _nodes_of(roots, down_to):
            if number == _LEAF:
                if self._distributed:
                    owner = self._rows.owners.get(id(getattr(node, "variable", None)), REST)
                    self._node_handles.append(node.register_prehook(partial(self._enter_node, number, owner)))
                    # After the last gradient comes the wait for those of the other processes.
                    self._node_handles.append(node.register_hook(partial(self._leave_node, COMMUNICATION)))
                continue
            position = bisect_right(self._numbers, number) - 1
            row = self._creators[position] if position >= 0 else REST
            if row != active or self._distributed:
                self._node_handles.append(node.register_prehook(partial(self._enter_node, number, row)))
            active = row

    def _enter_node(self, number: int, row: str, gradients: Any) -> None:
        del gradients
        # A loss may compute a gradient itself, such as for a penalty on it: that is not part of the backward pass.
        if self._phase == "backward":
            self._awaited.discard(number)
            if row != self._row:
                self._row = row
                self._on_change(row, "backward")

    def _leave_node(self, row: str, inputs: Any, outputs: Any) -> None:
        del inputs, outputs
        self._row = row
        self._on_change(row, "backward")


def _nodes_of(roots: Iterable[Any], down_to: int) -> list[tuple[int, Any]]:
    """Return the nodes of the graph behind some tensors, from the highest number down to a number: leaves first."""
    nodes = []
    seen: set[Any] = {None}
    open_nodes = [root.grad_fn for root in roots]
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        number = node._sequence_nr()
        if number >= down_to:
            nodes.append((number, node))
            open_nodes += [following for following, _ in node.next_functions]
    nodes.sort(key=itemgetter(0), reverse=True)
    return nodes


def _node_of(value: Any, number: int) -> Any:
    """Return the node of that number if it created one of the tensors in a value."""
    for tensor in (value,) if hasattr(value, "grad_fn") else _tensors(value):
        node = tensor.grad_fn
        if node is not None and node._sequence_nr() == number:
            return node
    return None


def _tensors(value: Any, depth: int = DEEPEST) -> Iterator[Any]:
    """Yield the tensors with a graph in a module's input or output."""
    if hasattr(value, "grad_fn"):
        yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, Mapping):
        inside = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        inside = (getattr(value, field.name, None) for field in fields(value))
    for item in inside if depth else ():
        yield from _tensors(item, depth - 1)
