"""`stopwav.profile` against a fake clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import stopwav
from fake_clock import FakeClock
from stopwav.engines.fake import spin
from stopwav.measure.clock import WallClock
from stopwav.measure.memory import EXACT
from stopwav.stats import percentile


def seen(function: Any) -> stopwav.Profile:
    """The profile of a profiled function."""
    profile: stopwav.Profile = function.profile
    return profile


def test_calls_stages_and_percentiles_of_a_function() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    def decode(seconds: float) -> float:
        """Its own words."""
        with stopwav.stage("features"):
            clock.advance(seconds / 4)
        for _ in range(2):
            with stopwav.stage("inference"), stopwav.stage("layer"):
                clock.advance(seconds / 8)
        clock.advance(seconds / 2)
        return seconds

    times = [float(second) for second in range(1, 81)]
    assert [decode(second) for second in times] == times
    found = seen(decode)
    assert found.calls == 80
    assert found.walls_s == pytest.approx(times)
    assert found.total_s == pytest.approx(80 * 81 / 2)
    assert found.mean_s == pytest.approx(40.5)
    assert found.median.value == pytest.approx(40)  # the nearest rank: 40 of 80 do not exceed it
    assert found.p95.value == pytest.approx(76)
    assert found.p95 == percentile(times, 0.95)
    assert {path: (one.calls, one.total_s) for path, one in found.stages.items()} == {
        "features": (80, pytest.approx(810)),
        "inference": (80, pytest.approx(810)),
        "inference/layer": (80, pytest.approx(810)),
    }
    assert (decode.__name__, decode.__doc__) == ("decode", "Its own words.")
    assert found.device_s is None


def test_a_percentile_that_the_calls_cannot_carry_is_none_with_the_reason() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    def tick() -> None:
        clock.advance(1)

    for _ in range(5):
        tick()
    assert seen(tick).median.value is None
    tick()
    assert seen(tick).median.value == 1
    assert seen(tick).p95.value is None
    assert "needs 72 events, has 6" in seen(tick).p95.note
    assert "–" in str(seen(tick))


def test_errors_pass_through_and_are_counted_apart() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    def fail(how: type[BaseException] | None) -> None:
        clock.advance(2)
        if how is not None:
            raise how("its own words")

    for how in (ValueError, KeyboardInterrupt):
        with pytest.raises(how, match="its own words"):
            fail(how)
    fail(None)
    found = seen(fail)
    assert (found.calls, found.errors, found.failed_s, found.total_s) == (1, 2, 4, 2)
    assert "2 raised, after 4.00 s" in str(found)


def test_blocks_of_one_name_are_counted_together() -> None:
    clock = FakeClock()
    for seconds in (1, 2):
        with stopwav.profile("a block of the tests", report=False, clock=clock) as found, stopwav.stage("part"):
            clock.advance(seconds)
    assert found.walls_s == (1, 2)
    assert found.stages["part"].total_s == 3
    assert stopwav.profiles()["a block of the tests"] is found
    with pytest.raises(ZeroDivisionError), stopwav.profile("a block of the tests", report=False, clock=clock):
        raise ZeroDivisionError
    assert found.errors == 1
    found.reset()
    assert (found.calls, found.errors, found.stages) == (0, 0, {})


def test_functions_of_one_name_are_kept_apart() -> None:
    def make() -> Any:
        @stopwav.profile(report=False)
        def twin() -> None: ...

        return twin

    first, second = seen(make()), seen(make())
    assert second.name == f"{first.name} (2)"
    assert first.name.startswith(__name__)


def test_a_function_inside_itself_is_timed_once() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    def countdown(left: int) -> None:
        clock.advance(1)
        if left:
            countdown(left - 1)

    countdown(3)
    assert (seen(countdown).calls, seen(countdown).inner_calls, seen(countdown).total_s) == (1, 3, 4)


def test_methods_are_profiled_and_bound() -> None:
    class Engine:
        factor = 3

        @stopwav.profile(report=False)
        def run(self, value: int) -> int:
            return self.factor * value

        @staticmethod
        @stopwav.profile(report=False)
        def plain(value: int) -> int:
            return value

        @classmethod
        @stopwav.profile(report=False)
        def of(cls, value: int) -> int:
            return cls.factor + value

    assert (Engine().run(2), Engine.plain(5), Engine.of(1)) == (6, 5, 4)
    assert seen(Engine.run).calls == seen(Engine.plain).calls == seen(Engine.of).calls == 1


def test_coroutines_are_timed_from_start_to_end() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    async def answer(seconds: float) -> str:
        with stopwav.stage("before"):
            clock.advance(seconds)
        await asyncio.sleep(0)
        clock.advance(seconds)
        return "done"

    assert asyncio.run(answer(3)) == "done"
    assert seen(answer).walls_s == (6,)
    assert seen(answer).stages["before"].total_s == 3

    async def both() -> None:
        await asyncio.gather(answer(1), answer(1))

    asyncio.run(both())
    # Each began after the other's first part or before it, and both saw all four seconds that passed from there.
    assert seen(answer).calls == 3
    assert seen(answer).inner_calls == 0
    assert all(seconds >= 2 for seconds in seen(answer).walls_s[1:])


def test_what_cannot_be_profiled_is_refused_with_an_alternative() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    for function in (generator, asynchronous):
        with pytest.raises(stopwav.StopwavError, match=r"is a generator.*with stopwav\.profile"):
            stopwav.profile(function)
    with pytest.raises(stopwav.StopwavError, match="below @classmethod"):
        stopwav.profile(classmethod(lambda cls: None))  # type: ignore[call-overload]
    with pytest.raises(stopwav.StopwavError, match="3 is no function or class"):
        stopwav.profile(3)  # type: ignore[call-overload]
    with pytest.raises(stopwav.StopwavError, match="a block needs a name"), stopwav.profile():
        pass
    block = stopwav.profile("entered twice", report=False)
    with block, pytest.raises(stopwav.StopwavError, match="already entered"):
        block.__enter__()


def test_threads_are_counted_without_loss() -> None:
    @stopwav.profile(report=False)
    def call() -> None:
        with stopwav.stage("part"):
            pass

    def many() -> None:
        for _ in range(200):
            call()
            with stopwav.profile("a block in threads", report=False):
                pass

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = seen(call)
    assert found.calls == found.stages["part"].calls == 1600
    assert found.inner_calls == 0
    assert stopwav.profiles()["a block in threads"].calls == 1600


def test_profiling_hides_no_stage_from_an_outer_measurement() -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock)
    def inner() -> None:
        with stopwav.stage("deep"):
            clock.advance(1)

    def outer() -> None:
        with stopwav.stage("outside"):
            inner()

    assert clock.time(outer).stages == {"outside": 1, "outside/deep": 1}
    assert seen(inner).stages["deep"].total_s == 1


def test_a_spin_comes_back_as_long_as_it_was() -> None:
    @stopwav.profile(report=False)
    def work() -> int:
        return spin(0.002)

    spin_s = [work() / 1e9 for _ in range(20)]
    # A spin returns its own time. The least of several: the machine may do other things between the two clocks.
    over_s = [wall_s - true_s for wall_s, true_s in zip(seen(work).walls_s, spin_s, strict=True)]
    assert min(seen(work).walls_s) >= 0.002
    assert 0 <= min(over_s) < 50e-6


@pytest.mark.parametrize("memory", [True, False])
def test_profiling_adds_little_to_the_time_it_reports(memory: bool) -> None:
    @stopwav.profile(report=False, memory=memory, clock=WallClock())
    def nothing() -> None: ...

    for _ in range(300):
        nothing()
    assert min(seen(nothing).walls_s) < 20e-6


def test_profiling_without_memory_costs_microseconds() -> None:
    @stopwav.profile(report=False, memory=False)
    def nothing() -> None: ...

    def once() -> float:
        start = time.perf_counter()
        for _ in range(200):
            nothing()
        return (time.perf_counter() - start) / 200

    assert min(once() for _ in range(10)) < 100e-6


def test_memory_of_short_calls_is_read_a_hundred_times_and_said_so() -> None:
    @stopwav.profile(report=False)
    def nothing() -> None: ...

    for _ in range(150):
        nothing()
    host = seen(nothing).host
    assert host is not None
    assert host.calls == 100
    assert "memory was read in 100 of 150 calls" in str(seen(nothing))
    assert " ≥ " in str(seen(nothing))  # a call that was not read may have needed more


def test_without_memory_none_is_read() -> None:
    with stopwav.profile("no memory", memory=False, report=False) as found:
        pass
    assert found.host is None


def test_inside_a_round_of_stopwavs_own_the_marks_of_memory_are_left_alone() -> None:
    @stopwav.profile
    def small() -> int:
        return 1

    def call() -> None:
        bytearray(b"x") * (256 * 2**20)  # let go at once: only the mark knows of it
        small()

    plan = stopwav.Plan(rounds=1, warmup_s=0.0, min_values_s=0.0, max_values_s=0.1)
    measurement = stopwav.measure(call, plan)
    assert measurement.status == "ok", measurement.time.note
    (round_,) = measurement.rounds
    assert round_.memory is not None
    if round_.memory.method != EXACT:
        pytest.skip("the peak mark cannot be reset on this machine")
    assert round_.memory.over_baseline_bytes == pytest.approx(256 * 2**20, rel=0.02)
    assert seen(small).calls == 0  # this process did not call it


def test_a_device_that_is_lost_does_not_hide_the_users_error() -> None:
    class LostClock(WallClock):
        lost = False

        def now_ns(self) -> int:
            if LostClock.lost:
                raise RuntimeError("CUDA error: device-side assert triggered")
            return super().now_ns()

    @stopwav.profile(report=False, clock=LostClock(), memory=False)
    def fails() -> None:
        with stopwav.stage("broken"):
            LostClock.lost = True
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert 0 <= seen(fails).failed_s < 1e6
