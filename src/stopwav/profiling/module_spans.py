"""The modules of a traced call as spans among its operators: torch.profiler itself has them for TorchScript only."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any


class ModuleSpans:
    """While it is open, each call of an `nn.Module` is a span, named by its path in the outermost module."""

    def __init__(self) -> None:
        self._hooks = ExitStack()
        self._threads = threading.local()
        # The paths below each outermost module; it is held, so that its id stays its own.
        self._paths: dict[int, tuple[Any, dict[int, str]]] = {}

    def __enter__(self) -> ModuleSpans:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._hooks.enter_context(register_module_forward_pre_hook(self._begin))
        self._hooks.enter_context(register_module_forward_hook(self._end, always_call=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.close()
        self._paths.clear()

    def _begin(self, module: Any, inputs: Any) -> None:
        import torch

        if torch.compiler.is_compiling():  # a graph has no parts
            return
        stack = self._stack()
        span = torch.profiler.record_function(f"nn.Module: {self._name(module, stack[0][0] if stack else module)}")
        span.__enter__()
        stack.append((module, span))

    def _end(self, module: Any, inputs: Any, output: Any) -> None:
        stack = self._stack()
        # A module whose call began before this was opened has no span.
        if any(begun is module for begun, _ in stack):
            while stack:
                begun, span = stack.pop()
                span.__exit__(None, None, None)
                if begun is module:
                    return

    def _stack(self) -> list[tuple[Any, Any]]:
        """The modules whose calls are open in this thread, outermost first."""
        if not hasattr(self._threads, "stack"):
            self._threads.stack = []
        stack: list[tuple[Any, Any]] = self._threads.stack
        return stack

    def _name(self, module: Any, root: Any) -> str:
        if id(root) not in self._paths:
            self._paths[id(root)] = (root, {id(part): path for path, part in root.named_modules()})
        kind, path = type(module).__name__, self._paths[id(root)][1].get(id(module), "")
        return f"{type(root).__name__}.{path} ({kind})" if path else kind
