"""Functions of tensors recorded once as a CUDA graph: one launch in place of hundreds, which is most of the time of a
small step on a large GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Libraries choose their algorithms and allocate their workspaces in the first calls, which a recording cannot hold.
CALLS_BEFORE = 3


class Graph:
    """A function whose inputs always have the shapes of `examples`. What it returns is overwritten by the next call."""

    def __init__(self, function: Callable[..., Any], examples: Sequence[Tensor]) -> None:
        self.inputs = [example.clone() for example in examples]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(CALLS_BEFORE):
                function(*self.inputs)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = function(*self.inputs)

    def __call__(self, *values: Tensor) -> Any:
        """The function's result, in the same tensors each time."""
        for kept, value in zip(self.inputs, values, strict=True):
            kept.copy_(value, non_blocking=True)
        self._graph.replay()
        return self._outputs
