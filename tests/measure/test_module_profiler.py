"""Every moment of a step belongs to the row that was active, by models whose cost is known."""

import copy
import gc
from threading import Thread

import pytest
import torch
from known_cost import Costly, Outer, own_ms, profiled_step
from torch import nn
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

import stopwav
from fake_clock import FakeClock
from stopwav.measure.labels import split_labels
from stopwav.measure.module_profiler import ModuleProfiler
from stopwav.measure.module_rows import rows_of
from stopwav.measure.training_step import PhaseProfiler, StepTime, StepTimer, TrainingJob, run_step


def test_each_module_gets_its_own_forward_and_backward(clock: FakeClock) -> None:
    model = nn.Sequential(Costly(clock.advance, 0.010, 0.030), Costly(clock.advance, 0.020, 0.005))
    time, profiler = profiled_step(model, clock)
    assert own_ms(time) == {("0", "forward"): 10, ("1", "forward"): 20, ("0", "backward"): 30, ("1", "backward"): 5}
    assert time.wall_s == pytest.approx(0.065)
    assert sum(part.wall_s for part in time.parts.values()) == pytest.approx(time.wall_s)
    assert profiler.calls == {"": 1, "0": 1, "1": 1}
    assert not profiler.callers


def test_a_module_is_not_charged_for_what_is_inside_it(clock: FakeClock) -> None:
    time, _ = profiled_step(nn.Sequential(Outer(clock)), clock)
    assert own_ms(time) == {("0", "forward"): 7, ("0.inner", "forward"): 10, ("0.inner", "backward"): 40}


def test_modules_below_the_depth_belong_to_the_one_around_them(clock: FakeClock) -> None:
    time, _ = profiled_step(nn.Sequential(Outer(clock)), clock, depth=1)
    assert own_ms(time) == {("0", "forward"): 17, ("0", "backward"): 40}


def test_stages_are_rows_in_the_loss_and_in_modules(clock: FakeClock) -> None:
    part = Costly(clock.advance, 0.010, 0.040)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with stopwav.stage("prepare"):
                clock.advance(0.002)
                with stopwav.stage("deep"):
                    clock.advance(0.003)
            return self.part(x)

    heavy = Costly(clock.advance, 0.005, 0.007)

    def loss(output: torch.Tensor, targets: None) -> torch.Tensor:
        clock.advance(0.001)
        with stopwav.stage("loss.simple"):
            return heavy(output).sum()

    time, profiler = profiled_step(Model(), clock, loss_fn=loss)
    assert own_ms(time) == {
        (":prepare", "forward"): 2,
        (":prepare/deep", "forward"): 3,
        ("part", "forward"): 10,
        ("(loss)", "loss"): 1,
        ("(loss):loss.simple", "loss"): 5,
        ("(loss):loss.simple", "backward"): 7,
        ("part", "backward"): 40,
    }
    assert profiler.stages == {":prepare", ":prepare/deep", "(loss):loss.simple"}


class Labelled(nn.Module):
    """A label around two modules, and one inside the second; with a checkpoint around it all, or without."""

    def __init__(self, clock: FakeClock, checkpoint: bool) -> None:
        super().__init__()
        self.first, self.second = Costly(clock.advance, 0.010, 0.030), Inside(clock)
        self.checkpoint = checkpoint

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("both"):
            x = self.first(x)
            return checkpoint(self.second, x, use_reentrant=False) if self.checkpoint else self.second(x)


class Inside(nn.Module):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock, self.part = clock, Costly(clock.advance, 0.002, 0.004)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.advance(0.001)
        with record_function("inner"):
            # The product needs its factor in the backward pass: a checkpoint computes it again.
            return self.part(x).square()


def label_ms(time: StepTime) -> dict[tuple[tuple[str, ...], str], int]:
    """Milliseconds by the labels that were open, and the phase."""
    sums: dict[tuple[tuple[str, ...], str], float] = {}
    for (row, phase), part in time.parts.items():
        labels = split_labels(row)[1]
        sums[labels, phase] = sums.get((labels, phase), 0.0) + part.wall_s
    return {key: round(1e3 * seconds) for key, seconds in sums.items() if key[0]}


def test_labels_are_seen_forward_and_backward_and_rows_stay_as_they_are(clock: FakeClock) -> None:
    time, profiler = profiled_step(Labelled(clock, checkpoint=False), clock)
    assert label_ms(time) == {
        (("both",), "forward"): 11,
        (("both", "inner"), "forward"): 2,
        (("both", "inner"), "backward"): 4,
        (("both",), "backward"): 30,
    }
    assert profiler.label_calls == {("both",): 1, ("both", "inner"): 1}
    rows = [(split_labels(row)[0], phase, part.wall_s) for (row, phase), part in time.parts.items()]
    assert sum(seconds for row, phase, seconds in rows if (row, phase) == ("second.part", "backward")) == 0.004


def test_labels_of_a_forward_that_runs_again_are_not_nested_in_themselves(clock: FakeClock) -> None:
    time, profiler = profiled_step(Labelled(clock, checkpoint=True), clock)
    by_label = label_ms(time)
    assert {labels for labels, _ in by_label} == {("both",), ("both", "inner")}
    # The second forward of the module, 1 ms of it outside of the inner label, is part of the backward pass.
    assert by_label[("both", "inner"), "backward"] == 6
    assert by_label[("both",), "backward"] == 31
    assert profiler.label_calls == {("both",): 1, ("both", "inner"): 1}


def test_labels_of_pytorch_and_of_other_threads_are_left_out(clock: FakeClock) -> None:
    class Threaded(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def label() -> None:
                with record_function("elsewhere"):
                    pass

            thread = Thread(target=label)
            thread.start()
            thread.join()
            return super().forward(x)

    before = record_function.__enter__, record_function.__exit__
    model = Threaded(4, 4)
    job = TrainingJob(
        model, lambda _: (torch.ones(2, 4), None), lambda y, _: y.sum(), torch.optim.AdamW(model.parameters())
    )
    timer = StepTimer()
    timer.begin()
    with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
        run_step(job, 0, profiler)
    assert not profiler.label_calls
    assert not label_ms(timer.end())
    assert (record_function.__enter__, record_function.__exit__) == before


def test_an_error_in_the_forward_leaves_no_hook(clock: FakeClock) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("broken")

    model = nn.Sequential(Costly(clock.advance, 0.01, 0.01), Broken())
    with pytest.raises(ValueError, match="broken"):
        profiled_step(model, clock)
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
                with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
                    run_step(job, 0, profiler)
            else:
                run_step(job, 0, PhaseProfiler(timer))
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


def test_the_graph_is_freed_after_a_profiled_step() -> None:
    model = nn.Linear(4, 4)

    def count() -> int:
        gc.collect()
        return sum(type(one).__name__.endswith("Backward0") for one in gc.get_objects())

    job = TrainingJob(
        model, lambda _: (torch.ones(2, 4), None), lambda y, _: y.sum(), torch.optim.SGD(model.parameters())
    )
    before = count()
    timer = StepTimer()
    with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
        run_step(job, 0, profiler)
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
    run_step(job, 0, PhaseProfiler(timer))
    steps = []
    for _ in range(3):
        with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
            timer.begin()
            run_step(job, 0, profiler)
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
        with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
            run_step(job, 0, profiler)
        found = timer.end()
    for phase in ("forward", "backward"):
        times = [found.parts[str(index), phase].device_s or 0.0 for index in range(3)]
        for one, expected in zip(times, (0.6, 0.3, 0.1), strict=True):
            assert one / sum(times) == pytest.approx(expected, abs=0.03)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("again", [False, True])
def test_on_cuda_a_module_inside_a_label_carries_it_in_both_directions(again: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.product = nn.Linear(1024, 1024)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with record_function("outer"):
                return checkpoint(self.product, x, use_reentrant=False) if again else self.product(x)

    model = Model().to("cuda")
    data = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    job = TrainingJob(
        model, lambda _: (data, None), lambda y, _: y.square().sum(), torch.optim.SGD(model.parameters()), "cuda"
    )
    timer = StepTimer("cuda")
    timer.begin()
    with ModuleProfiler(rows_of(model, 3), timer.mark) as profiler:
        run_step(job, 0, profiler)
    parts = [(*split_labels(row), phase) for row, phase in timer.end().parts]
    assert {(labels, phase) for row, labels, phase in parts if row == "product"} == {
        (("outer",), "forward"),
        (("outer",), "backward"),
    }
    assert profiler.label_calls == {("outer",): 1}
