"""The stop rule on a clock that moves only when told: no test here waits."""

import random
from collections.abc import Callable

import pytest

from fake_clock import FakeClock
from stopwav.measure.plan import Plan
from stopwav.measure.sampler import MAX_WARMUP_CALLS, choose_loops, sample, warm_up


class Scripted:
    """A call that takes the scripted times, one after the other, on a fake clock."""

    def __init__(self, times: Callable[[int], float]) -> None:
        self.clock = FakeClock()
        self.calls = 0
        self._times = times

    def __call__(self) -> None:
        self.clock.advance(self._times(self.calls))
        self.calls += 1


def test_the_first_call_is_kept_apart() -> None:
    call = Scripted(lambda k: 5.0 if k == 0 else 0.1)
    samples = sample(call, call.clock, Plan())
    assert samples.first_s == pytest.approx(5.0)
    assert max(samples.warmup_s + samples.values_s) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call_s", "expected"),
    [(1.0, 3), (0.125, 8), (20.0, 2), (0.001, MAX_WARMUP_CALLS)],
    ids=["three calls at least", "a second at least", "thirty seconds at most", "twenty calls at most"],
)
def test_warm_up_bounds(call_s: float, expected: int) -> None:
    call = Scripted(lambda k: call_s)
    values_s, _ = warm_up(call, call.clock, Plan())
    assert len(values_s) == expected


def test_a_drifting_warm_up_is_said_and_a_steady_one_is_not() -> None:
    drifting = Scripted(lambda k: 0.1 * 0.9**k)
    _, cautions = warm_up(drifting, drifting.clock, Plan())
    assert [caution.code for caution in cautions] == ["not-warm"]
    steady = Scripted(lambda k: 0.1)
    assert warm_up(steady, steady.clock, Plan())[1] == ()


@pytest.mark.parametrize(("call_s", "loops"), [(0.02, 1), (0.010, 1), (0.006, 2), (0.001, 16), (1e-6, 16384)])
def test_short_calls_are_looped_until_a_value_lasts_ten_milliseconds(call_s: float, loops: int) -> None:
    call = Scripted(lambda k: call_s)
    assert choose_loops(call, call.clock) == loops


def test_a_value_is_seconds_per_iteration() -> None:
    call = Scripted(lambda k: 0.001)
    samples = sample(call, call.clock, Plan())
    assert samples.loops == 16
    assert samples.values_s == pytest.approx([0.001] * len(samples.values_s))


def test_quiet_values_stop_at_the_minimum_and_noisy_ones_go_on_to_the_maximum() -> None:
    quiet = Scripted(lambda k: 0.2)
    assert len(sample(quiet, quiet.clock, Plan()).values_s) == 10
    noise = random.Random(1)
    noisy = Scripted(lambda k: 0.02 * noise.lognormvariate(0, 1))
    assert len(sample(noisy, noisy.clock, Plan()).values_s) == 100


def test_values_last_a_second_at_least_and_twenty_at_most() -> None:
    short = Scripted(lambda k: 0.02)
    assert sum(sample(short, short.clock, Plan()).values_s) >= 1.0 - 1e-9
    noise = random.Random(1)
    long = Scripted(lambda k: noise.uniform(1, 5))
    values = sample(long, long.clock, Plan()).values_s
    assert 20.0 <= sum(values) < 25.0


def test_the_stop_rule_looks_only_every_fifth_value() -> None:
    counts = set()
    for seed in range(20):
        noise = random.Random(seed)
        call = Scripted(lambda k, noise=noise: 0.15 * noise.lognormvariate(0, 0.05))
        counts.add(len(sample(call, call.clock, Plan()).values_s))
    assert len(counts) > 3
    assert all(count % 5 == 0 for count in counts)


class Prepared(Scripted):
    """A call that changes its inputs, which it makes anew, for so many calls at a time, on a slow machine."""

    def __init__(self, most: int) -> None:
        super().__init__(lambda k: 0.001)
        self.most, self.ready = most, 0

    def prepare_calls(self, count: int) -> int:
        self.clock.advance(1.0)
        self.ready = max(self.ready, min(count, self.most))
        return min(count, self.most)

    def __call__(self) -> None:
        assert self.ready > 0, "no input was prepared"
        self.ready -= 1
        super().__call__()


@pytest.mark.parametrize(("most", "loops"), [(100, 16), (16, 16), (9, 8), (1, 1)])
def test_inputs_are_prepared_for_every_call_and_that_is_not_timed(most: int, loops: int) -> None:
    call = Prepared(most)
    samples = sample(call, call.clock, Plan(warmup_s=0))
    assert samples.loops == loops
    times_s = [samples.first_s, *samples.warmup_s, *samples.values_s]
    assert times_s == pytest.approx([0.001] * len(times_s))


def test_stages_are_given_per_iteration() -> None:
    import stopwav

    clock = FakeClock()

    def call() -> None:
        with stopwav.stage("half"):
            clock.advance(0.001)
        clock.advance(0.001)

    samples = sample(call, clock, Plan())
    assert samples.stages_s[0]["half"] == pytest.approx(0.001)


def test_memory_of_results_is_not_held() -> None:
    import weakref

    class Big:
        pass

    alive: list[weakref.ref[Big]] = []
    clock = FakeClock()

    def call() -> Big:
        clock.advance(0.2)
        big = Big()
        alive.append(weakref.ref(big))
        return big

    samples = sample(call, clock, Plan())
    assert len(samples.values_s) >= 10
    assert sum(ref() is not None for ref in alive[-10:-1]) == 0


class OneAtATime(FakeClock):
    """A clock that prepares each call."""

    one_at_a_time = True


def test_a_call_that_the_clock_prepares_is_never_repeated_inside_a_value() -> None:
    plan = Plan(min_values=3, max_values=3, warmup_s=0)
    for clock, loops in ((OneAtATime(), 1), (FakeClock(), 16)):
        samples = sample(lambda clock=clock: clock.advance(0.001), clock, plan)  # type: ignore[misc]
        assert samples.loops == loops
        assert samples.values_s == pytest.approx((0.001,) * 3)
