"""Profiled code in generators, tasks and threads, whose contexts are copied and left in any order."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
from collections.abc import AsyncIterator, Iterator

import pytest

import stopwav
from fake_clock import FakeClock


def test_generators_that_take_turns_leave_nothing_open() -> None:
    clock = FakeClock()

    def rows(name: str) -> Iterator[int]:
        with stopwav.profile(name, report=False, clock=clock, memory=False):
            yield 1
            with stopwav.stage("late"):
                clock.advance(1)
            yield 2

    a, b = rows("turns a"), rows("turns b")
    next(a)
    next(b)
    assert [*a, *b] == [2, 2]
    for _ in range(3):
        with stopwav.profile("turns a", report=False, clock=clock, memory=False) as found:
            clock.advance(1)
    assert (found.calls, found.inner_calls) == (4, 0)
    # The stage of a was passed while b, entered last, was the one to collect it.
    assert stopwav.profiles()["turns b"].stages["late"].total_s == 2


def test_an_asynchronous_generator_may_end_in_another_context() -> None:
    async def rows() -> AsyncIterator[int]:
        with stopwav.profile("other context", report=False), stopwav.stage("half"):
            yield 1
            yield 2

    async def main() -> list[int]:
        found, made = [], rows()
        # Each step in a task of its own, with a copy of the context.
        while True:
            try:
                found.append(await asyncio.create_task(anext(made)))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return found

    assert asyncio.run(main()) == [1, 2]
    assert stopwav.profiles()["other context"].calls == 1


def test_the_users_error_comes_out_of_another_context() -> None:
    block = contextvars.copy_context()
    profiled = stopwav.profile("broken context", report=False)
    block.run(profiled.__enter__)
    error = KeyError("mine")
    assert profiled.__exit__(KeyError, error, None) is None
    assert stopwav.profiles()["broken context"].errors == 1


def test_a_callback_that_calls_itself_later_is_not_inside_itself() -> None:
    @stopwav.profile(report=False)
    def tick(left: int, done: asyncio.Event) -> None:
        if left:
            asyncio.get_running_loop().call_soon(tick, left - 1, done)
        else:
            done.set()

    async def main() -> None:
        done = asyncio.Event()
        tick(4, done)
        await done.wait()

    asyncio.run(main())
    found: stopwav.Profile = tick.profile  # type: ignore[attr-defined]
    assert (found.calls, found.inner_calls) == (5, 0)


def test_stages_of_tasks_that_outlive_a_call_are_not_collected() -> None:
    clock = FakeClock()

    async def later() -> None:
        await asyncio.sleep(0)
        with stopwav.stage("too late"):
            clock.advance(1)

    @stopwav.profile(report=False, clock=clock)
    async def start() -> asyncio.Task[None]:
        with stopwav.stage("in time"):
            clock.advance(1)
        return asyncio.create_task(later())

    async def main() -> None:
        await (await start())

    asyncio.run(main())
    assert list(start.profile.stages) == ["in time"]  # type: ignore[attr-defined]


def test_stages_of_awaited_tasks_are_collected_and_those_of_threads_are_not() -> None:
    clock = FakeClock()

    async def part() -> None:
        with stopwav.stage("part"):
            clock.advance(1)

    def elsewhere() -> None:
        with stopwav.stage("elsewhere"):
            clock.advance(1)

    @stopwav.profile(report=False, clock=clock)
    async def whole() -> None:
        await asyncio.gather(part(), part())
        await asyncio.to_thread(elsewhere)

    asyncio.run(whole())
    found: stopwav.Profile = whole.profile  # type: ignore[attr-defined]
    assert {path: stage.total_s for path, stage in found.stages.items()} == {"part": 2}


def test_a_step_ends_where_it_began() -> None:
    clock = FakeClock()
    with stopwav.profile_steps(wait=0, warmup=0, active=3, report=False, clock=clock) as steps:
        with (
            stopwav.profile("around a step", report=False),
            pytest.raises(stopwav.StopwavError, match="inside a profiled function"),
        ):
            steps.step()
        with stopwav.stage("forward"):
            clock.advance(1)
        steps.step()
        contextvars.copy_context().run(steps.step)  # this one began in this context, and the next one will not
        with pytest.raises(stopwav.StopwavError, match="another thread or task"):
            steps.step()
    assert steps.profile.stages["forward"].total_s == 1


def test_a_profile_travels_with_what_it_saw() -> None:
    clock = FakeClock()
    with stopwav.profile("travels", report=False, clock=clock) as found, stopwav.stage("far"):
        clock.advance(2)
    for same in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert (same.name, same.calls, same.total_s) == ("travels", 1, 2)
        assert same.stages["far"].total_s == 2


def test_an_object_with_an_asynchronous_call_is_awaited() -> None:
    clock = FakeClock()

    class Client:
        async def __call__(self) -> None:
            await asyncio.sleep(0)
            clock.advance(1)

    asyncio.run(stopwav.profile(Client(), report=False, clock=clock)())
    assert stopwav.profiles()["test_contexts." + Client.__qualname__].total_s == 1


@pytest.mark.parametrize("clock", [FakeClock, "wall", 3])
def test_what_is_not_a_clock_is_refused_at_once(clock: object) -> None:
    with pytest.raises(stopwav.StopwavError, match="is not a clock"):
        stopwav.profile("clockless", clock=clock)  # type: ignore[call-overload]
    with pytest.raises(stopwav.StopwavError, match="is not a clock"):
        stopwav.profile_steps(wait=0, warmup=0, active=1, clock=clock)  # type: ignore[arg-type]


def test_many_functions_of_one_name_are_told_apart() -> None:
    made = [stopwav.profile("alike", report=False)(lambda: None).profile.name for _ in range(3)]  # type: ignore[attr-defined]
    assert made == ["alike", "alike (2)", "alike (3)"]
