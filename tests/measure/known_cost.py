"""Modules whose cost is known: they move a clock that stands still otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import rows_of
from stopwav.measure.training_step import StepTime, StepTimer, TrainingJob, run_step


class HandClock:
    """A clock that somebody moves."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def spend(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


class _Spend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, spend: Callable[[float], None], forward_s: float, backward_s: float) -> Any:
        ctx.spend, ctx.backward_s = spend, backward_s
        spend(forward_s)
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        ctx.spend(ctx.backward_s)
        return gradient, None, None, None


class Costly(nn.Module):
    """A module that takes so long, forward and backward, and adds a parameter."""

    def __init__(self, spend: Callable[[float], None], forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.costs = spend, forward_s, backward_s
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Spend.apply(x + self.shift, *self.costs)


class Outer(nn.Module):
    """A module with work of its own around a module inside it."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.clock = clock
        self.inner = Costly(clock.spend, 0.010, 0.040)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.spend(0.003)
        x = self.inner(x)
        self.clock.spend(0.004)
        return x


def watched_step(
    model: nn.Module, clock: HandClock, *, depth: int = 3, loss_fn: Any = None, batch: Any = None
) -> tuple[StepTime, ModuleProfiler]:
    """One watched step of a model by a clock."""
    timer = StepTimer(now_ns=clock.now_ns)
    job = TrainingJob(
        model,
        lambda index: batch if batch is not None else (torch.ones(2, 3), None),
        loss_fn or (lambda output, targets: output.sum()),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )
    found = []
    # However the nodes of the graph are found, every row gets the same.
    for walks in (False, True):
        with ModuleProfiler(rows_of(model, depth), timer.mark, walks=walks, now_ns=clock.now_ns) as watch:
            timer.begin()
            run_step(job, 0, watch)
            found.append((timer.end(), watch))
        assert watch.complete
    assert own_ms(found[0][0]) == own_ms(found[1][0])
    return found[0]


def own_ms(time: StepTime) -> dict[tuple[str, str], int]:
    """Milliseconds of each row in each phase, of those that took any."""
    return {key: round(one.wall_s * 1e3) for key, one in time.parts.items() if one.wall_s > 0}
