"""CUDA graphs of the steps over many streams: one recording for each size of a batch, and the sizes there are."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import torch

from stopwav.models.transducer import GRAPH_WARMUP_CALLS

# Powers of two and their halves between them: at most a third of a batch is padding.
SIZES = sorted({size for power in range(18) for size in (2**power, 3 * 2 ** (power - 1) if power > 1 else 1)})


class StepGraphs:
    """Functions without arguments over fixed tensors, each recorded once as a CUDA graph, or called as they are.

    A recording calls its function: the tensors that it works on must then point to rows that nobody reads.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._graphs: dict[tuple[str, int], Callable[[], object]] = {}
        self._pool: Any = None

    def size(self, count: int, most: int) -> int:
        """Return with how many rows to run so many: the next size that is recorded, without graphs the count."""
        return min(SIZES[bisect.bisect_left(SIZES, count)], most) if self.enabled else count

    def sizes(self, most: int) -> list[int]:
        """Return all sizes up to one."""
        return [*SIZES[: bisect.bisect_left(SIZES, most)], most] if self.enabled else []

    def has(self, key: tuple[str, int]) -> bool:
        """Whether nothing has to be recorded for a key."""
        return not self.enabled or key in self._graphs

    def run(self, key: tuple[str, int], function: Callable[[], object]) -> None:
        """Replay the recording of a key; without one, call the function."""
        self._graphs.get(key, function)()

    def record(self, key: tuple[str, int], function: Callable[[], object]) -> None:
        """Record a function, unless it was."""
        if not self.has(key):
            self._graphs[key] = self._capture(function)

    def _capture(self, function: Callable[[], object]) -> Callable[[], object]:
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(GRAPH_WARMUP_CALLS):
                function()
        torch.cuda.current_stream().wait_stream(warmup)
        graph = torch.cuda.CUDAGraph()
        # One pool for all: their results go to tensors outside of it, and no two of them run at once.
        with torch.cuda.graph(graph, pool=self._pool):
            function()
        self._pool = self._pool or graph.pool()
        return graph.replay

    def forget(self, *names: str) -> None:
        """Forget the recordings whose keys begin with these names: tensors that they work on were replaced."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if key[0] not in names}

    def clear(self) -> None:
        """Forget all recordings."""
        self._graphs.clear()
        self._pool = None
