"""Clocks and paced streams: by a fake clock, by spins whose time is known, and on a CUDA device."""

import time

import pytest

from fake_clock import FakeClock
from stopwav.engines.fake import spin
from stopwav.errors import StopwavError
from stopwav.measure.clock import CudaClock, KernelClock, Pace, WallClock, feed


def has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


@pytest.mark.alone
def test_the_wall_clock_agrees_with_a_spin() -> None:
    timings = [WallClock().time(lambda: spin(0.002)) for _ in range(20)]
    # A spin returns its own time. The least of several: the machine may do other things between the two clocks.
    over_s = [timing.wall_s - timing.result / 1e9 for timing in timings]
    assert all(timing.wall_s >= 0.002 for timing in timings)
    assert 0 <= min(over_s) < 50e-6


def test_a_timing_carries_the_result_and_lets_errors_through() -> None:
    assert WallClock().time(lambda: 42).result == 42
    with pytest.raises(ZeroDivisionError):
        WallClock().time(lambda: 1 / 0)


@pytest.mark.alone
@pytest.mark.parametrize("may_sleep", [False, True])
def test_waiting_ends_at_the_deadline_not_before(may_sleep: bool) -> None:
    clock = WallClock()
    late = []
    for _ in range(20):
        deadline = clock.now_ns() + 2_000_000
        clock.wait_until_ns(deadline, may_sleep=may_sleep)
        late.append(clock.now_ns() - deadline)
    # The least of several: the machine may do other things at any deadline.
    assert 0 <= min(late) < 200_000


@pytest.mark.skipif(has_cuda(), reason="there is a CUDA device here")
def test_a_cuda_clock_without_cuda_says_what_to_do() -> None:
    with pytest.raises(StopwavError, match=r"stopwav\[torch\]|device=cpu"):
        CudaClock()


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.skipif(not has_cuda(), reason="no CUDA device here")
def test_the_cuda_clock_waits_for_the_device() -> None:
    import torch

    import stopwav

    a = torch.randn(4096, 4096, device="cuda")
    clock = CudaClock()

    def call() -> None:
        with stopwav.stage("product"):
            for _ in range(20):
                torch.mm(a, a)

    for _ in range(3):
        clock.time(call)
    timing = clock.time(call)
    assert timing.device_s is not None
    # 20 products of 4096³ take over a millisecond on any device; their launch alone takes a tenth of that.
    assert timing.device_s > 1e-3
    assert timing.device_s <= timing.wall_s * 1.05
    assert timing.stages["product"] == pytest.approx(timing.wall_s, rel=0.2)


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.skipif(not has_cuda(), reason="no CUDA device here")
def test_the_cuda_clock_gives_each_stage_the_work_it_started_and_does_not_wait_for_it() -> None:
    import torch

    import stopwav

    a = torch.randn(4096, 4096, device="cuda")
    clock = CudaClock()
    launched_s: list[float] = []

    def products(count: int) -> None:
        for _ in range(count):
            torch.mm(a, a)

    def call() -> None:
        begin_s = time.perf_counter()
        with stopwav.stage("one"):
            products(1)
        with stopwav.stage("three"):
            products(3)
        launched_s.append(time.perf_counter() - begin_s)
        # What the call times inside has events of its own.
        clock.time(lambda: products(1))

    for _ in range(3):
        timing = clock.time(call)
    assert timing.device_s is not None
    assert timing.stages["three"] == pytest.approx(3 * timing.stages["one"], rel=0.2)
    assert sum(timing.stages.values()) == pytest.approx(0.8 * timing.device_s, rel=0.2)
    assert launched_s[-1] < 0.5 * sum(timing.stages.values())


@pytest.mark.gpu
@pytest.mark.skipif(not has_cuda(), reason="no CUDA device here")
def test_the_stages_of_the_kernel_clock_are_the_devices_and_add_up() -> None:
    import torch

    import stopwav

    a = torch.rand(4096, 4096, device="cuda")

    def call() -> None:
        with stopwav.stage("one"):
            a @ a
        with stopwav.stage("three"):
            for _ in range(3):
                a @ a

    clock = KernelClock("cuda")
    clock.time(call)
    timing = clock.time(call)
    assert timing.device_s is not None
    assert timing.stages["three"] == pytest.approx(3 * timing.stages["one"], rel=0.2)
    assert sum(timing.stages.values()) == pytest.approx(timing.device_s, rel=0.05)
    assert timing.wall_s >= 0.95 * timing.device_s


def test_virtual_time_reconstructs_the_queue() -> None:
    clock = FakeClock()
    services = [0.05, 0.30, 0.05, 0.05]
    calls = iter([lambda s=s: clock.advance(s) for s in services])
    fed = list(feed([0.1, 0.2, 0.3, 0.4], calls, clock, "virtual"))
    assert [call.start_s for call in fed] == pytest.approx([0.1, 0.2, 0.5, 0.55])
    assert [call.done_s for call in fed] == pytest.approx([0.15, 0.5, 0.55, 0.6])


def test_real_pace_waits_by_an_absolute_schedule_and_agrees_with_virtual_time() -> None:
    services = [0.05, 0.30, 0.05, 0.05]
    dues = [0.1, 0.2, 0.3, 0.4]
    fed = {}
    for pace in ("virtual", "real", "idle"):
        clock = FakeClock()
        calls = iter([lambda s=s, clock=clock: clock.advance(s) for s in services])
        fed[pace] = [(call.start_s, call.done_s) for call in feed(dues, calls, clock, pace)]  # type: ignore[arg-type]
    assert fed["real"] == fed["idle"] == [pytest.approx(pair) for pair in fed["virtual"]]


@pytest.mark.alone
@pytest.mark.parametrize("pace", ["real", "idle"])
def test_a_paced_stream_does_not_drift(pace: Pace) -> None:
    dues = [0.005 * k for k in range(1, 41)]
    start = time.perf_counter()
    fed = list(feed(dues, iter([lambda: spin(0.001)] * len(dues)), WallClock(), pace))
    assert time.perf_counter() - start >= dues[-1]
    starts_late = [call.start_s - call.due_s for call in fed]
    assert min(starts_late) >= 0
    # A stream that drifts is late at its end, every time; one that a busy machine holds up comes back to its schedule.
    assert min(starts_late[-10:]) < 0.001


def test_a_call_that_raises_ends_the_stream_and_leaves_what_was_before() -> None:
    stream = feed([1, 2, 3], iter([lambda: 1, lambda: int("x"), lambda: 3]), FakeClock(), "virtual")
    assert next(stream).result == 1
    with pytest.raises(ValueError):
        next(stream)
