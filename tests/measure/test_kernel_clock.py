"""The clock for kernels: what the device did in each stage, and one call to a value."""

import pytest

from stopwav import Plan, stage
from stopwav.measure.clock import FakeClock
from stopwav.measure.sampler import sample


class OneAtATime(FakeClock):
    """A clock that prepares every call."""

    one_at_a_time = True


def test_a_call_that_is_prepared_is_never_repeated_inside_a_value() -> None:
    plan = Plan(min_values=3, max_values=3, warmup_s=0)
    for clock, loops in ((OneAtATime(), 1), (FakeClock(), 16)):
        samples = sample(lambda clock=clock: clock.advance(0.001), clock, plan)  # type: ignore[misc]
        assert samples.loops == loops
        assert samples.values_s == pytest.approx((0.001,) * 3)


@pytest.mark.gpu
def test_stages_are_the_devices_and_add_up() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from stopwav.measure.clock import KernelClock

    a = torch.rand(4096, 4096, device="cuda")

    def call() -> None:
        with stage("one"):
            a @ a
        with stage("three"):
            for _ in range(3):
                a @ a

    clock = KernelClock("cuda")
    clock.time(call)
    timing = clock.time(call)
    assert timing.device_s is not None
    assert timing.stages["three"] == pytest.approx(3 * timing.stages["one"], rel=0.2)
    assert sum(timing.stages.values()) == pytest.approx(timing.device_s, rel=0.05)
    assert timing.wall_s >= 0.95 * timing.device_s
