"""`stopwav.profile_steps` against a fake clock, and against torch.profiler's own schedule."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stopwav
from fake_clock import FakeClock
from stopwav.errors import StopwavError


def run(times: list[float], clock: FakeClock, **schedule: int) -> stopwav.Steps:
    """A loop whose steps take the times given."""
    with stopwav.profile_steps(**schedule, clock=clock, report=False) as steps:
        for seconds in times:
            with stopwav.stage("forward"):
                clock.advance(seconds / 2)
            clock.advance(seconds / 2)
            steps.step()
    return steps


def test_only_active_steps_are_measured() -> None:
    # wait, warm-up, three active, twice; then two more that the schedule leaves alone
    times = [100, 50, 1, 2, 3, 100, 50, 4, 5, 6, 100, 100]
    steps = run([float(one) for one in times], FakeClock(), wait=1, warmup=1, active=3, repeat=2)
    assert steps.times_s == pytest.approx((1, 2, 3, 4, 5, 6))
    assert [(one.index, one.cycle) for one in steps.active] == [(2, 0), (3, 0), (4, 0), (7, 1), (8, 1), (9, 1)]
    assert steps.profile.total_s == pytest.approx(21)
    assert steps.profile.stages["forward"].total_s == pytest.approx(10.5)
    assert [one.sample.stages["forward"] for one in steps.active] == pytest.approx([0.5, 1, 1.5, 2, 2.5, 3])
    assert steps.done
    # Ranges are taken within a cycle: 1, 1, 1, 1. The jump from 3 to 4 between the cycles is none of them.
    assert steps.chart.moving_range == pytest.approx(1)
    assert steps.chart.limit == pytest.approx(3.5 + 2.66)
    assert steps.above_limit == ()


def test_a_slow_step_is_named_by_its_number_in_the_loop() -> None:
    times = [9.0] * 3 + [1.0, 1.1] * 15 + [5.0] + [1.0, 1.1] * 5
    steps = run(times, FakeClock(), skip_first=2, wait=0, warmup=1, active=41, repeat=1)
    (slow,) = steps.above_limit
    assert (slow.index, slow.wall_s) == (33, pytest.approx(5))
    # By hand: mean (20 · 1.0 + 20 · 1.1 + 5) / 41, ranges 29 · 0.1 before, 3.9, 4.0, 9 · 0.1 after, over 40.
    assert steps.chart.mean == pytest.approx(47 / 41)
    assert steps.chart.moving_range == pytest.approx((38 * 0.1 + 3.9 + 4.0) / 40)
    assert steps.chart.limit == pytest.approx(47 / 41 + 2.66 * 11.7 / 40)
    assert "step 33 (cycle 0): 5.00 s" in str(steps)
    assert "1 of 41 steps above it" in str(steps)


def test_over_a_loader_the_batches_are_a_stage_of_their_step() -> None:
    clock = FakeClock()

    def loader() -> list[int]:
        return [1, 2, 3]

    class Slow:
        def __iter__(self) -> object:
            for batch in loader():
                clock.advance(2)
                yield batch
            clock.advance(50)  # finding out that there is no more belongs to no step

    got = []
    with stopwav.profile_steps(wait=0, warmup=1, active=2, clock=clock, report=False) as steps:
        for batch in steps.over(Slow()):  # type: ignore[arg-type]
            got.append((batch, steps.phase))
            clock.advance(1)
    assert got == [(1, "warmup"), (2, "active"), (3, "active")]
    assert steps.times_s == pytest.approx((3, 3))
    assert steps.profile.stages["data"].total_s == pytest.approx(4)


def test_a_step_that_is_left_or_breaks_is_not_one() -> None:
    clock = FakeClock()
    steps = stopwav.profile_steps(wait=0, warmup=0, active=1, clock=clock, report=False)

    def loop() -> None:
        with steps:
            for batch in steps.over(range(5)):
                clock.advance(1)
                if batch == 2:
                    raise ValueError("its own words")

    with pytest.raises(ValueError, match="its own words"):
        loop()
    assert steps.times_s == pytest.approx((1, 1))
    assert steps.profile.errors == 0
    with stopwav.stage("after"):  # no mark is left behind that would catch it
        pass
    assert set(steps.profile.stages) == {"data"}


SCHEDULES = st.fixed_dictionaries(
    {
        "wait": st.integers(0, 3),
        "warmup": st.integers(1, 3),  # torch warns of 0
        "active": st.integers(1, 4),
        "repeat": st.integers(0, 3),
        "skip_first": st.integers(0, 3),
        "skip_first_wait": st.integers(0, 1),
    }
)


@given(SCHEDULES, st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_phases_are_those_of_torch(fields: dict[str, int], index: int) -> None:
    profiler = pytest.importorskip("torch.profiler")
    if "skip_first_wait" not in inspect.signature(profiler.schedule).parameters:  # an older torch
        fields = {name: value for name, value in fields.items() if name != "skip_first_wait"}
    theirs = profiler.schedule(**fields)(index).name
    place = stopwav.Schedule(**fields).place(index)
    phase = {"NONE": ("skip", "wait", "done"), "WARMUP": ("warmup",)}.get(theirs, ("active",))
    assert place.phase in phase


@given(SCHEDULES)
def test_a_schedule_knows_its_first_active_step_and_its_length(fields: dict[str, int]) -> None:
    schedule = stopwav.Schedule(**{**fields, "repeat": 2})
    phases = [schedule.place(index).phase for index in range(50)]
    assert phases.index("active") == schedule.first_active
    assert phases.index("done") == schedule.steps_of(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wait": 1, "warmup": 1}, "active= is missing"),
        ({"wait": 1, "warmup": 1, "active": 0}, "active=0: give a whole number from 1"),
        ({"wait": -1, "warmup": 1, "active": 1}, "wait=-1: give a whole number from 0"),
        ({"wait": 1.5, "warmup": 1, "active": 1}, "wait=1.5"),
        ({"schedule": stopwav.Schedule(wait=0, warmup=0, active=1), "repeat": 2}, "not both .got repeat"),
        ({"schedule": "often"}, "'often' is not a schedule"),
        ({"wait": 0, "warmup": 1, "active": 1, "trace": "x"}, "leaves no cycle to trace"),
    ],
)
def test_a_wrong_schedule_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        stopwav.profile_steps(**arguments)  # type: ignore[arg-type]


def test_a_trace_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StopwavError, match="name a folder"):
        stopwav.profile_steps(wait=0, warmup=1, active=1, repeat=1, trace=tmp_path / "file" / "below")


def test_a_step_in_the_wrong_place_is_an_error() -> None:
    steps = stopwav.profile_steps(wait=0, warmup=0, active=2, report=False)
    with pytest.raises(StopwavError, match="outside the `with` block"):
        steps.step()
    with steps, stopwav.stage("open"), pytest.raises(StopwavError, match="inside stage 'open'"):
        steps.step()
    with pytest.raises(StopwavError, match="already measured"), steps:
        pass


def test_traced_cycles_follow_the_measured_ones_and_feed_no_number(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    clock, model, phases = FakeClock(), torch.nn.Linear(8, 8), []
    with stopwav.profile_steps(
        wait=1, warmup=1, active=2, repeat=2, trace=tmp_path / "logs", clock=clock, report=False
    ) as steps:
        for _ in steps.over(range(20)):
            phases.append((steps.phase, steps.tracing))
            model(torch.ones(2, 8)).sum().backward()
            clock.advance(1000 if steps.tracing else 1)
    cycle = ["wait", "warmup", "active", "active"]
    expected = [(phase, traced) for traced in (False, True) for _ in range(2) for phase in cycle]
    assert phases == expected + [("done", False)] * 4
    assert steps.times_s == (1, 1, 1, 1)
    assert sorted(steps.traces) == sorted((tmp_path / "logs").iterdir())
    assert len(steps.traces) == 2
    assert all(re.fullmatch(r".+_\d+\.\d+\.pt\.trace\.json", path.name) for path in steps.traces)
    found = stopwav.analyse(tmp_path / "logs", report=False)
    (linear,) = [one for one in found.operators if one.name == "aten::linear"]
    assert linear.calls == 4  # two active steps in each of two traces
    (step,) = [one for one in found.operators if one.name == "ProfilerStep"]
    assert step.calls == 4


def test_a_loop_that_ends_too_early_says_how_many_traces_are_missing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with stopwav.profile_steps(wait=0, warmup=1, active=2, repeat=1, trace=tmp_path, report=False) as steps:
        for _ in steps.over(range(5)):
            pass
    assert steps.traces == ()
    assert list(tmp_path.iterdir()) == []
    assert "0 of 1 traces: the loop ended after 5 steps; measuring and then tracing take 6" in str(steps)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    schedule = stopwav.Schedule(wait=np.int64(0), warmup=np.int32(1), active=np.uint8(2))
    assert [schedule.place(index).phase for index in range(4)] == ["warmup", "active", "active", "warmup"]


def test_a_step_too_many_is_said() -> None:
    with stopwav.profile_steps(wait=0, warmup=0, active=9, report=False) as steps:
        for _ in steps.over(range(2)):
            pass
        for _ in steps.over(range(2)):
            with pytest.raises(StopwavError, match="which ends each step; leave it out"):
                steps.step()
            break
        steps.step()  # after the loop it may end a step again
    assert steps.index == 3


def test_a_loop_that_ended_too_early_says_which_step_would_have_been_the_first() -> None:
    with stopwav.profile_steps(wait=2, warmup=1, active=3, report=False) as steps:
        for _ in range(2):
            steps.step()
    assert "no active step: the loop ended after 2, and the first active one is step 3" in str(steps)
