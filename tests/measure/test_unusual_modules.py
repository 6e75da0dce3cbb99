"""Times of modules that are used in unusual ways: twice, shared, recomputed, in place, unused."""

import pytest
import torch
from known_cost import Costly, Outer, own_ms, profiled_step
from torch import nn
from torch.utils.checkpoint import checkpoint

from fake_clock import FakeClock
from stopwav.measure.module_rows import rows_of
from stopwav.measure.training_step import TrainingJob
from stopwav.studies.step.step_runner import StepRunner


def test_a_module_that_is_called_twice_has_both_calls(clock: FakeClock) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Costly(clock.advance, 0.010, 0.030)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(self.part(x))

    time, profiler = profiled_step(Twice(), clock)
    assert own_ms(time) == {("part", "forward"): 20, ("part", "backward"): 60}
    assert profiler.calls["part"] == 2


def test_a_shared_module_stands_under_its_first_name_and_is_named(clock: FakeClock) -> None:
    class Wrap(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x)

    part = Costly(clock.advance, 0.010, 0.030)
    model = nn.Sequential(Wrap(part), Wrap(part))
    rows = rows_of(model, 3)
    assert rows.rows["0.part"].also == ("1.part",)
    assert rows.shared == {"0.part.shift": ("1.part.shift",)}
    time, profiler = profiled_step(model, clock)
    assert own_ms(time) == {("0.part", "forward"): 20, ("0.part", "backward"): 60}
    assert profiler.callers == {"0.part": {"1"}}


class Checkpointed(nn.Module):
    def __init__(self, clock: FakeClock, reentrant: bool) -> None:
        super().__init__()
        self.first = Costly(clock.advance, 0.001, 0.002)
        self.second = Outer(clock)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.second, self.first(x), use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_recomputed_by_the_module_itself(clock: FakeClock, reentrant: bool) -> None:
    time, profiler = profiled_step(Checkpointed(clock, reentrant), clock)
    times = own_ms(time)
    assert times["first", "forward"] == 1
    assert times["first", "backward"] == 2
    assert times["second.inner", "forward"] == 10
    assert times["second", "forward"] == 7
    # Backward: 40 of its own, and once more the 10 of the forward; 3 of 7 where the recomputation may stop early.
    if reentrant:
        assert times["second.inner", "backward"] == 50
        assert times["second", "backward"] == 7
    else:
        # Nothing in it is saved, so that nothing need be computed again.
        assert times["second.inner", "backward"] in (40, 50)
    assert profiler.calls["second.inner"] == 1
    assert sum(part.wall_s for part in time.parts.values()) == pytest.approx(time.wall_s)


def test_a_checkpoint_that_needs_its_tensors_is_charged_for_them(clock: FakeClock) -> None:
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Costly(clock.advance, 0.010, 0.040)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x) ** 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.squares = Squares()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.squares, x.requires_grad_(), use_reentrant=False)

    time, profiler = profiled_step(Model(), clock)
    assert own_ms(time) == {("squares.part", "forward"): 10, ("squares.part", "backward"): 50}
    assert profiler.recomputed == {"squares", "squares.part"}


def test_a_result_that_the_loss_does_not_use_hides_no_row(clock: FakeClock) -> None:
    class Pair(Costly):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            used = super().forward(x)
            return used, used * 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Pair(clock.advance, 0.001, 0.010), Costly(clock.advance, 0.002, 0.020)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)[0])

    model = Model()
    job = TrainingJob(
        model,
        lambda _: (torch.ones(2, 3), None),
        lambda output, _: output.sum(),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )
    parts = StepRunner(job, depth=3, steps=1, now_ns=clock.now_ns).measure(0)["watched"]["parts"]
    found = {(row, phase): round(1e3 * wall_s) for row, phase, wall_s, _ in parts if wall_s > 0}
    assert found == {
        ("first", "forward"): 1, ("second", "forward"): 2, ("first", "backward"): 10, ("second", "backward"): 20,
    }  # fmt: skip


def test_a_loss_that_takes_a_gradient_by_itself_ends_no_row_early(clock: FakeClock) -> None:
    model = nn.Sequential(Costly(clock.advance, 0.001, 0.010), Costly(clock.advance, 0.002, 0.020))
    data = torch.ones(2, 3, requires_grad=True)

    def with_penalty(output: torch.Tensor, _: None) -> torch.Tensor:
        torch.autograd.grad(output.sum(), data, retain_graph=True)
        clock.advance(0.005)
        return output.sum()

    time, _ = profiled_step(model, clock, loss_fn=with_penalty, batch=(data, None))
    times = own_ms(time)
    # What the penalty's own backward takes is the loss's: 30, and 5 of its own.
    assert times["(loss)", "loss"] == 35
    assert times["0", "backward"] == 10
    assert times["1", "backward"] == 20


def test_in_place_modules_are_attributed(clock: FakeClock) -> None:
    class Slow(nn.ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            clock.advance(0.002)
            return super().forward(x)

    model = nn.Sequential(Costly(clock.advance, 0.010, 0.030), Slow(inplace=True), Costly(clock.advance, 0.020, 0.005))
    time, _ = profiled_step(model, clock)
    assert own_ms(time) == {
        ("0", "forward"): 10, ("1", "forward"): 2, ("2", "forward"): 20, ("0", "backward"): 30, ("2", "backward"): 5,
    }  # fmt: skip
