"""Modules whose cost is known: they advance a fake clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fake_clock import FakeClock
from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import rows_of
from stopwav.measure.training_step import StepTime, StepTimer, TrainingJob, run_step


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

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.inner = Costly(clock.advance, 0.010, 0.040)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.advance(0.003)
        x = self.inner(x)
        self.clock.advance(0.004)
        return x


def profiled_step(
    model: nn.Module, clock: FakeClock, *, depth: int = 3, loss_fn: Any = None, batch: Any = None
) -> tuple[StepTime, ModuleProfiler]:
    """Run one profiled step of a model by a clock."""
    timer = StepTimer(now_ns=clock.now_ns)
    job = TrainingJob(
        model,
        lambda index: batch if batch is not None else (torch.ones(2, 3), None),
        loss_fn or (lambda output, targets: output.sum()),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )
    steps = []
    # However the nodes of the graph are found, every row gets the same.
    for walk_graph in (False, True):
        profiler = ModuleProfiler(rows_of(model, depth), timer.mark, walk_graph=walk_graph, now_ns=clock.now_ns)
        with profiler:
            timer.begin()
            run_step(job, 0, profiler)
            steps.append((timer.end(), profiler))
        assert profiler.complete
    assert own_ms(steps[0][0]) == own_ms(steps[1][0])
    return steps[0]


def own_ms(time: StepTime) -> dict[tuple[str, str], int]:
    """The milliseconds of each row in each phase, without zeros."""
    return {key: round(part.wall_s * 1e3) for key, part in time.parts.items() if part.wall_s > 0}
