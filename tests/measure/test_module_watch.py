"""Every moment of a step belongs to the row that was at work, by models whose cost is known."""

import copy
import gc

import pytest
import torch
from known_cost import Costly, HandClock, own_ms, watched_step
from torch import nn
from torch.utils.checkpoint import checkpoint

import stopwav
from stopwav.measure.module_rows import rows_of
from stopwav.measure.module_watch import ModuleWatch
from stopwav.measure.step_timer import StepTimer
from stopwav.measure.training_step import PhaseWatch, TrainingJob, run_step
from stopwav.studies.step_runner import StepRunner


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_each_module_gets_its_own_forward_and_backward(clock: HandClock) -> None:
    model = nn.Sequential(Costly(clock.spend, 0.010, 0.030), Costly(clock.spend, 0.020, 0.005))
    time, watch = watched_step(model, clock)
    assert own_ms(time) == {("0", "forward"): 10, ("1", "forward"): 20, ("0", "backward"): 30, ("1", "backward"): 5}
    assert time.wall_s == pytest.approx(0.065)
    assert sum(one.wall_s for one in time.parts.values()) == pytest.approx(time.wall_s)
    assert watch.calls == {"": 1, "0": 1, "1": 1}
    assert not watch.callers


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


def test_a_module_is_not_charged_for_what_is_inside_it(clock: HandClock) -> None:
    time, _ = watched_step(nn.Sequential(Outer(clock)), clock)
    assert own_ms(time) == {("0", "forward"): 7, ("0.inner", "forward"): 10, ("0.inner", "backward"): 40}


def test_modules_below_the_depth_belong_to_the_one_around_them(clock: HandClock) -> None:
    time, _ = watched_step(nn.Sequential(Outer(clock)), clock, depth=1)
    assert own_ms(time) == {("0", "forward"): 17, ("0", "backward"): 40}


def test_a_module_that_is_called_twice_has_both_calls(clock: HandClock) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Costly(clock.spend, 0.010, 0.030)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(self.part(x))

    time, watch = watched_step(Twice(), clock)
    assert own_ms(time) == {("part", "forward"): 20, ("part", "backward"): 60}
    assert watch.calls["part"] == 2


def test_a_shared_module_stands_under_its_first_name_and_is_named(clock: HandClock) -> None:
    class Wrap(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x)

    part = Costly(clock.spend, 0.010, 0.030)
    model = nn.Sequential(Wrap(part), Wrap(part))
    rows = rows_of(model, 3)
    assert rows.rows["0.part"].also == ("1.part",)
    assert rows.shared == {"0.part.shift": ("1.part.shift",)}
    time, watch = watched_step(model, clock)
    assert own_ms(time) == {("0.part", "forward"): 20, ("0.part", "backward"): 60}
    assert watch.callers == {"0.part": {"1"}}


class Checkpointed(nn.Module):
    def __init__(self, clock: HandClock, reentrant: bool) -> None:
        super().__init__()
        self.first = Costly(clock.spend, 0.001, 0.002)
        self.second = Outer(clock)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.second, self.first(x), use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_recomputed_by_the_module_itself(clock: HandClock, reentrant: bool) -> None:
    time, watch = watched_step(Checkpointed(clock, reentrant), clock)
    found = own_ms(time)
    assert found["first", "forward"] == 1
    assert found["first", "backward"] == 2
    assert found["second.inner", "forward"] == 10
    assert found["second", "forward"] == 7
    # Backward: 40 of its own, and once more the 10 of the forward; 3 of 7 where the recomputation may stop early.
    if reentrant:
        assert found["second.inner", "backward"] == 50
        assert found["second", "backward"] == 7
    else:
        # Nothing in it is saved, so that nothing need be computed again.
        assert found["second.inner", "backward"] in (40, 50)
    assert watch.calls["second.inner"] == 1
    assert sum(one.wall_s for one in time.parts.values()) == pytest.approx(time.wall_s)


def test_a_checkpoint_that_needs_its_tensors_is_charged_for_them(clock: HandClock) -> None:
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Costly(clock.spend, 0.010, 0.040)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x) ** 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.squares = Squares()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.squares, x.requires_grad_(), use_reentrant=False)

    time, watch = watched_step(Model(), clock)
    assert own_ms(time) == {("squares.part", "forward"): 10, ("squares.part", "backward"): 50}
    assert watch.recomputed == {"squares", "squares.part"}


def test_a_result_that_the_loss_does_not_use_hides_no_row(clock: HandClock) -> None:
    class Pair(Costly):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            used = super().forward(x)
            return used, used * 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Pair(clock.spend, 0.001, 0.010), Costly(clock.spend, 0.002, 0.020)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)[0])

    model = Model()
    job = TrainingJob(
        model,
        lambda _: (torch.ones(2, 3), None),
        lambda output, _: output.sum(),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )
    parts = StepRunner(job, depth=3, steps=1, now_ns=clock.now_ns).take(0)["watched"]["parts"]
    found = {(row, phase): round(1e3 * wall_s) for row, phase, wall_s, _ in parts if wall_s > 0}
    assert found == {
        ("first", "forward"): 1, ("second", "forward"): 2, ("first", "backward"): 10, ("second", "backward"): 20,
    }  # fmt: skip


def test_a_loss_that_takes_a_gradient_by_itself_ends_no_row_early(clock: HandClock) -> None:
    model = nn.Sequential(Costly(clock.spend, 0.001, 0.010), Costly(clock.spend, 0.002, 0.020))
    data = torch.ones(2, 3, requires_grad=True)

    def with_penalty(output: torch.Tensor, _: None) -> torch.Tensor:
        torch.autograd.grad(output.sum(), data, retain_graph=True)
        clock.spend(0.005)
        return output.sum()

    time, _ = watched_step(model, clock, loss_fn=with_penalty, batch=(data, None))
    found = own_ms(time)
    # What the penalty's own backward takes is the loss's: 30, and 5 of its own.
    assert found["(loss)", "loss"] == 35
    assert found["0", "backward"] == 10
    assert found["1", "backward"] == 20


def test_in_place_modules_are_attributed(clock: HandClock) -> None:
    class Slow(nn.ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            clock.spend(0.002)
            return super().forward(x)

    model = nn.Sequential(Costly(clock.spend, 0.010, 0.030), Slow(inplace=True), Costly(clock.spend, 0.020, 0.005))
    time, _ = watched_step(model, clock)
    assert own_ms(time) == {
        ("0", "forward"): 10, ("1", "forward"): 2, ("2", "forward"): 20, ("0", "backward"): 30, ("2", "backward"): 5,
    }  # fmt: skip


def test_stages_are_rows_in_the_loss_and_in_modules(clock: HandClock) -> None:
    part = Costly(clock.spend, 0.010, 0.040)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with stopwav.stage("prepare"):
                clock.spend(0.002)
                with stopwav.stage("deep"):
                    clock.spend(0.003)
            return self.part(x)

    heavy = Costly(clock.spend, 0.005, 0.007)

    def loss(output: torch.Tensor, targets: None) -> torch.Tensor:
        clock.spend(0.001)
        with stopwav.stage("loss.simple"):
            return heavy(output).sum()

    time, watch = watched_step(Model(), clock, loss_fn=loss)
    assert own_ms(time) == {
        (":prepare", "forward"): 2,
        (":prepare/deep", "forward"): 3,
        ("part", "forward"): 10,
        ("(loss)", "loss"): 1,
        ("(loss):loss.simple", "loss"): 5,
        ("(loss):loss.simple", "backward"): 7,
        ("part", "backward"): 40,
    }
    assert watch.stages == {":prepare", ":prepare/deep", "(loss):loss.simple"}


def test_an_error_in_the_forward_leaves_no_hook(clock: HandClock) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("broken")

    model = nn.Sequential(Costly(clock.spend, 0.01, 0.01), Broken())
    with pytest.raises(ValueError, match="broken"):
        watched_step(model, clock)
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def noisy_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(16, 4))


def test_hooks_change_no_output_no_gradient_and_no_random_number_and_are_gone_afterwards() -> None:
    found = []
    for hooked in (False, True):
        model = noisy_model()
        losses: list[torch.Tensor] = []

        def loss(output: torch.Tensor, targets: None, losses: list[torch.Tensor] = losses) -> torch.Tensor:
            losses.append(output.detach().clone())
            return output.square().mean()

        kept: dict[str, torch.Tensor] = {}

        class Keeping(torch.optim.SGD):
            def step(self, closure: None = None) -> None:  # type: ignore[override]
                kept.update({name: one.grad.clone() for name, one in model.named_parameters()})  # noqa: B023
                super().step()

        job = TrainingJob(model, lambda _: (torch.randn(5, 8), None), loss, Keeping(model.parameters(), lr=0.1))
        torch.manual_seed(2)
        timer = StepTimer()
        for _ in range(3):
            timer.begin()
            if hooked:
                with ModuleWatch(rows_of(model, 3), timer.mark) as watch:
                    run_step(job, 0, watch)
            else:
                run_step(job, 0, PhaseWatch(timer))
        found.append((losses, copy.deepcopy(kept), torch.get_rng_state(), model.state_dict()))
        for module in model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
            assert not module._backward_hooks
    (plain, plain_grads, plain_rng, plain_state), (ours, our_grads, our_rng, our_state) = found
    assert all(torch.equal(a, b) for a, b in zip(plain, ours, strict=True))
    assert all(torch.equal(plain_grads[name], our_grads[name]) for name in plain_grads)
    assert all(torch.equal(plain_state[name], our_state[name]) for name in plain_state)
    assert torch.equal(plain_rng, our_rng)


def test_the_graph_is_freed_after_a_watched_step() -> None:
    model = nn.Linear(4, 4)

    def count() -> int:
        gc.collect()
        return sum(type(one).__name__.endswith("Backward0") for one in gc.get_objects())

    job = TrainingJob(
        model, lambda _: (torch.ones(2, 4), None), lambda y, _: y.sum(), torch.optim.SGD(model.parameters())
    )
    before = count()
    timer = StepTimer()
    with ModuleWatch(rows_of(model, 3), timer.mark) as watch:
        run_step(job, 0, watch)
    assert count() == before


def test_names_depth_and_folding() -> None:
    block = lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU())  # noqa: E731
    model = nn.ModuleDict({"layers": nn.ModuleList([block(), block(), block()]), "head": block()})
    rows = rows_of(model, 3).rows
    assert rows["layers.1"].folded == "layers.*"
    assert rows["layers.1.0"].folded == "layers.*.0"
    assert rows["head.0"].folded == "head.0"
    assert rows["layers.2"].parameters == 6
    assert rows[""].parameters == 24
    assert set(rows_of(model, 1).rows) == {"", "layers", "head", "layers.0", "layers.1", "layers.2"}
    assert set(rows_of(model, 0, ["layers.*.0"]).rows) == {"", "layers.0.0", "layers.1.0", "layers.2.0"}


@pytest.mark.alone
def test_spinning_modules_get_their_shares_back_within_three_percent() -> None:
    import time

    def spin(seconds: float) -> None:
        # By the processor's time: what others take from this machine meanwhile is not counted.
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    costs = {"0": (0.020, 0.040), "1": (0.010, 0.010), "2": (0.005, 0.015)}
    model = nn.Sequential(*(Costly(spin, *pair) for pair in costs.values()))
    timer = StepTimer(now_ns=time.thread_time_ns)
    job = TrainingJob(
        model, lambda _: (torch.ones(2, 3), None), lambda y, _: y.sum(), torch.optim.SGD(model.parameters())
    )
    run_step(job, 0, PhaseWatch(timer))
    steps = []
    for _ in range(3):
        with ModuleWatch(rows_of(model, 3), timer.mark) as watch:
            timer.begin()
            run_step(job, 0, watch)
            steps.append(timer.end())
    # The one in which the machine did least beside it.
    found = min(steps, key=lambda one: one.wall_s)
    whole = sum(sum(pair) for pair in costs.values())
    for path, (forward_s, backward_s) in costs.items():
        assert found.parts[path, "forward"].wall_s / found.wall_s == pytest.approx(forward_s / whole, abs=0.03)
        assert found.parts[path, "backward"].wall_s / found.wall_s == pytest.approx(backward_s / whole, abs=0.03)


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_matrices_of_known_size_get_their_shares_back() -> None:
    class Product(nn.Module):
        def __init__(self, count: int) -> None:
            super().__init__()
            self.count, self.weight = count, nn.Parameter(torch.randn(2048, 2048, device="cuda") / 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.count):
                x = x @ self.weight
            return x

    model = nn.Sequential(Product(6), Product(3), Product(1))
    data = torch.randn(2048, 2048, device="cuda", requires_grad=True)
    job = TrainingJob(
        model, lambda _: (data, None), lambda y, _: y.sum(), torch.optim.SGD(model.parameters(), lr=0.0), "cuda"
    )
    timer = StepTimer("cuda")
    for _ in range(5):
        timer.begin()
        with ModuleWatch(rows_of(model, 3), timer.mark) as watch:
            run_step(job, 0, watch)
        found = timer.end()
    for phase in ("forward", "backward"):
        times = [found.parts[str(index), phase].device_s or 0.0 for index in range(3)]
        for one, expected in zip(times, (0.6, 0.3, 0.1), strict=True):
            assert one / sum(times) == pytest.approx(expected, abs=0.03)
