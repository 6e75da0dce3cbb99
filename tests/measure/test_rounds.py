"""`measure` and `race` through their public names, on workloads whose times are known."""

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import stopwav
from stopwav import Plan
from stopwav.errors import Caution
from stopwav.measure import rounds
from stopwav.measure.rounds import Measurement, Round
from stopwav.measure.sampler import Samples

# Small enough for a test, the same rules as a full plan.
SHORT = Plan(
    rounds=3, min_values=5, max_values=10, warmup_s=0.02, min_values_s=0.05, max_values_s=0.3, time_limit_s=1e6
)


@dataclass(frozen=True)
class Spin:
    """Spins, and writes down the nanoseconds that it took by its own clock, call by call."""

    seconds: float
    log: Path = Path(os.devnull)
    name: str = "spin"
    params: dict[str, float] = field(default_factory=dict)

    def setup(self) -> Callable[[], object]:
        from stopwav.engines.fake import spin

        seconds, log = self.seconds, os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def call() -> None:
            with stopwav.stage("spinning"):
                took_ns = spin(seconds)
            os.write(log, b"%d\n" % took_ns)

        return call


def test_a_known_time_comes_back_with_its_interval(tmp_path: Path) -> None:
    measurement = stopwav.measure(Spin(0.012, tmp_path / "log", params={"ms": 12}), SHORT)
    assert (measurement.name, measurement.params, measurement.status) == ("spin", {"ms": 12}, "ok")
    true_s = iter([int(line) / 1e9 for line in (tmp_path / "log").read_text().split()])
    over_s, around_s = [], []
    for round_ in measurement.rounds:
        assert round_.samples is not None
        assert round_.samples.loops == 1
        # The first call, the warm-up, one to see how long a call is, the values, and one for the memory.
        before = 2 + len(round_.samples.warmup_s)
        values = [next(true_s) for _ in range(before + len(round_.samples.values_s) + 1)][before:-1]
        for value_s, stages, truth_s in zip(round_.samples.values_s, round_.samples.stages_s, values, strict=True):
            over_s.append(stages["spinning"] - truth_s)
            around_s.append(value_s - stages["spinning"])
    assert next(true_s, None) is None
    assert min(over_s + around_s) >= -1e-9
    # A busy machine makes the script late, and between two clocks now and then does something else.
    assert max(median(over_s), median(around_s)) < 0.01 * 0.012 + 50e-6
    assert 0.012 <= measurement.stages["spinning"].value <= measurement.time.value  # type: ignore[operator]
    assert measurement.time.low <= measurement.time.value <= measurement.time.high  # type: ignore[operator]
    assert measurement.time.n == len(over_s)
    memory = measurement.rounds[0].memory
    assert memory is not None
    assert memory.peak_bytes > 1_000_000


def test_each_round_is_a_fresh_process(tmp_path: Path) -> None:
    log = tmp_path / "pids"

    def call() -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.01)

    stopwav.measure(call, SHORT)
    pids = set(log.read_text().split())
    assert len(pids) == 3
    assert str(os.getpid()) not in pids


def test_a_race_is_interleaved_in_fresh_processes(tmp_path: Path) -> None:
    log = tmp_path / "order"

    def noted(name: str) -> Callable[[], object]:
        def call() -> None:
            if log.read_text()[-1:] != name:
                log.write_text(log.read_text() + name)
            time.sleep(0.001)

        return call

    log.write_text("")
    race = stopwav.race(noted("a"), noted("b"), Plan(rounds=2, min_values=1, max_values=1, warmup_s=0, min_values_s=0))
    # Round 1 begins with b, as round 0 ended.
    assert log.read_text() == "aba"
    assert len(race.pairs[0]) == 2


@dataclass(frozen=True)
class Scripted:
    """A workload whose rounds take the scripted times, one after the other."""

    name: str
    times_s: tuple[float, ...]
    params: dict[str, float] = field(default_factory=dict)

    def setup(self) -> Callable[[], object]:
        raise AssertionError("scripted rounds are not run")


def steady_round(index: int, seconds: float) -> stopwav.Round:
    """A round whose values are all the same."""
    return stopwav.Round(index, "ok", samples=Samples(seconds, (), 1, (seconds,) * 5, (), ({},) * 5, ()))


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run scripted rounds without processes, and list the workloads in the order in which they were run."""
    names: list[str] = []

    def run_round(workload: Scripted, plan: Plan, index: int, device: str) -> stopwav.Round:
        names.append(workload.name)
        return steady_round(index, workload.times_s[names.count(workload.name) - 1])

    monkeypatch.setattr(rounds, "_run_round", run_round)
    return names


def test_a_race_finds_the_faster(order: list[str]) -> None:
    # Half as long in every round, and what the rounds share cancels.
    first = Scripted("a", (0.020, 0.030, 0.026, 0.040))
    second = Scripted("b", (0.010, 0.0151, 0.0129, 0.020))
    race = stopwav.race(first, second, Plan(rounds=4))
    assert "".join(order) == "abbaabba"
    assert [round_.median_s for round_ in race.b.rounds] == pytest.approx(second.times_s)
    assert race.verdict.kind == "faster"
    assert race.verdict.ratio == pytest.approx(0.5, rel=0.01)
    assert stopwav.Race(race.b, race.a, 0.01).verdict.kind == "slower"


def test_a_race_may_stop_at_its_first_verdict_and_says_by_which_rule(order: list[str]) -> None:
    first = Scripted("a", (0.020, 0.030, 0.026, 0.040, 0.030, 0.030))
    second = Scripted("b", (0.010, 0.0151, 0.0129, 0.020, 0.015, 0.015))
    race = stopwav.race(first, second, Plan(rounds=6), stop_when_decided=True)
    # Two rounds per side decide nothing by a rule that allows looking, and three are enough for twice as fast.
    assert "".join(order) == "abbaab"
    assert (race.rule, race.verdict.rule, race.verdict.kind, race.verdict.n) == ("anytime", "anytime", "faster", 3)
    # Already decided: nothing more is measured, and the rule stays.
    again = stopwav.race(
        first, second, Plan(rounds=6), stop_when_decided=True, previous_rounds=(race.a.rounds, race.b.rounds)
    )
    assert len(order) == 6
    assert again == race
    # Without it the plan is followed to its end.
    order.clear()
    fixed = stopwav.race(first, second, Plan(rounds=6))
    assert len(order) == 12
    assert fixed.verdict.rule == "fixed"


def test_a_race_that_nothing_decides_ends_with_its_plan(order: list[str]) -> None:
    first, second = Scripted("a", (0.02, 0.03, 0.02, 0.03)), Scripted("b", (0.03, 0.02, 0.03, 0.02))
    race = stopwav.race(first, second, Plan(rounds=4), stop_when_decided=True)
    assert len(order) == 8
    assert race.verdict.kind == "undecided"


def test_a_race_continues_from_previous_rounds(order: list[str]) -> None:
    plan = Plan(rounds=4)
    first = Scripted("a", (0.020, 0.030, 0.026, 0.040))
    second = Scripted("b", (0.010, 9.0, 0.0151, 0.0129, 0.020))
    begun = stopwav.race(first, second, plan, only=[0, 1])
    assert "".join(order) == "abba"
    new: list[tuple[int, int]] = []
    # The second round of b was lost.
    race = stopwav.race(
        first,
        second,
        plan,
        previous_rounds=(begun.a.rounds, begun.b.rounds[:1]),
        on_round=lambda position, round_: new.append((position, round_.index)),
    )
    assert "".join(order) == "abba" + "b" + "ab" + "ba"
    assert new == [(1, 1), (0, 2), (1, 2), (1, 3), (0, 3)]
    assert race.a.rounds[:2] == begun.a.rounds
    assert race.pairs[0] == pytest.approx([0.020, 0.030, 0.026, 0.040])
    assert race.pairs[1] == pytest.approx([0.010, 0.0151, 0.0129, 0.020])


def test_a_race_of_previous_rounds_measures_nothing_and_has_a_verdict(order: list[str]) -> None:
    plan = Plan(rounds=3)
    first = Scripted("a", (0.020, 0.030, 0.040))
    previous = stopwav.measure(first, plan).rounds
    # Three rounds against two of them: the two that both have are paired.
    race = stopwav.race(first, first, plan, previous_rounds=(previous, previous[1:]), only=())
    assert order == ["a"] * 3
    assert race.pairs == ([0.030, 0.040], [0.030, 0.040])
    assert race.verdict.ratio == 1.0
    assert stopwav.race(first, first, plan, previous_rounds=(previous, ()), only=()).pairs == ([], [])


def test_a_throttled_round_is_kept_with_its_repetition() -> None:
    good = steady_round(0, 0.01)
    throttled = replace(good, throttled=True)
    both = stopwav.Measurement("x", {}, (throttled, good))
    assert both.good == (good,)
    assert [caution.code for caution in both.cautions] == ["throttled"]
    assert stopwav.Measurement("x", {}, (throttled, replace(good, status="error"))).good == (throttled,)


def test_previous_rounds_are_not_run_again_and_a_missing_repetition_is(order: list[str]) -> None:
    workload = Scripted("a", (0.01,) * 9)
    whole = stopwav.measure(workload, SHORT)
    previous = (replace(whole.rounds[0], throttled=True), whole.rounds[1])
    new: list[stopwav.Round] = []
    measurement = stopwav.measure(workload, SHORT, previous_rounds=previous, on_round=new.append)
    assert [round_.index for round_ in new] == [0, 2]
    assert measurement.rounds == (*previous, *new)


def test_no_verdict_from_one_round() -> None:
    with pytest.raises(stopwav.StopwavError, match="rounds=1"):
        stopwav.race(lambda: None, lambda: None, Plan(rounds=1))


def test_a_workload_that_fails_is_a_result_with_a_reason_and_its_race_needs_no_more_rounds() -> None:
    failed = stopwav.measure(lambda: 1 / 0, Plan(rounds=1))
    assert failed.status == "error"
    assert failed.time.value is None
    assert "ZeroDivisionError" in failed.time.note
    good = stopwav.Measurement("good", {}, tuple(steady_round(index, 0.1) for index in range(3)))
    verdict = stopwav.Race(failed, good, 0.01).verdict
    assert (verdict.kind, verdict.more_rounds) == ("undecided", None)
    assert "ZeroDivisionError" in verdict.note


def test_a_round_beyond_its_time_limit_is_a_timeout_and_the_others_count(tmp_path: Path) -> None:
    hung = tmp_path / "hung"

    def call() -> None:
        if not hung.exists():
            hung.touch()
            time.sleep(1000)

    plan = Plan(rounds=2, min_values=5, max_values=5, warmup_s=0, min_values_s=0, time_limit_s=1)
    timeout = stopwav.measure(call, plan, only=[0])
    hung.touch()  # a slow machine may not have come to it
    measurement = stopwav.measure(call, replace(plan, time_limit_s=1e6), previous_rounds=timeout.rounds)
    assert [round_.status for round_ in measurement.rounds] == ["timeout", "ok"]
    assert measurement.status == "ok"
    assert [caution.code for caution in measurement.cautions] == ["rounds-failed"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "plan: rounds=0 must be greater than 0; leave it out for 3"),
        ({"rounds": 2.5}, "plan: rounds=2.5 is not a whole number; leave it out for 3"),
        ({"rounds": True}, "plan: rounds=True is not a whole number"),
        ({"precision": -1}, "plan: precision=-1 must be greater than 0; leave it out for 0.02"),
        ({"max_values_s": math.inf}, "plan: max_values_s=inf is not a finite number; leave it out for 20.0"),
        ({"max_values_s": "20"}, "plan: max_values_s='20' is not a finite number"),
        ({"max_values_s": None}, "plan: max_values_s=None is not a finite number"),
        ({"time_limit_s": math.nan}, "plan: time_limit_s=nan is not a finite number; leave it out for 300.0"),
        ({"min_values_s": -0.1}, "plan: min_values_s=-0.1 must be 0 or more; leave it out for 1.0"),
        ({"warmup_s": math.inf}, "plan: warmup_s=inf is not a finite number"),
        ({"memory_limit_bytes": 0}, "plan: memory_limit_bytes=0 must be greater than 0; leave it out for None"),
        ({"max_values": 5, "min_values": 10}, "plan: max_values=5 is below min_values=10; raise it or lower"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(stopwav.StopwavError, match=re.escape(message)):
        Plan(**wrong)


def test_a_plan_may_do_without_warm_up_and_limits() -> None:
    Plan(warmup_s=0, min_values_s=0, seed=-1, memory_limit_bytes=None, energy=True)


async def asynchronous() -> None: ...


def generator() -> Iterator[int]:
    yield 1


class NameOnly:
    name = "nameless"

    def setup(self) -> None: ...


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (asynchronous, "asynchronous: calling it runs nothing; wrap it in asyncio.run"),
        (generator, "a generator: calling it runs nothing"),
        (NameOnly(), "no `params`"),
        (3, "3 is not a function"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_runs(thing: Any, message: str) -> None:
    with pytest.raises(stopwav.StopwavError, match=message):
        stopwav.measure(thing, SHORT)
    with pytest.raises(stopwav.StopwavError, match=message):
        stopwav.race(lambda: None, thing, SHORT)


def test_what_cannot_be_sent_to_a_process_is_said() -> None:
    lock = threading.Lock()
    with pytest.raises(stopwav.StopwavError, match=r"cannot pickle '_thread.lock' object .*; create such objects"):
        stopwav.measure(lambda: lock.acquire(), SHORT)


def test_a_threshold_below_zero_is_refused_before_anything_runs() -> None:
    with pytest.raises(stopwav.StopwavError, match="threshold=-1"):
        stopwav.race(lambda: None, lambda: None, SHORT, threshold=-1)


def test_a_measurement_of_no_round_says_so() -> None:
    measurement = stopwav.measure(lambda: None, SHORT, only=[])
    assert (measurement.status, measurement.time.value, measurement.time.note) == ("skipped", None, "no round was run")


def test_one_call_is_a_warning_where_it_is_so_in_half_of_the_rounds() -> None:
    def round_of(index: int, *cautions: Caution) -> Round:
        return Round(index, "ok", samples=Samples(0.1, (), 1, (0.1,), (), ({},), cautions))

    one_call, other = Caution("one-call", "only one"), Caution("not-warm", "cold")
    most = tuple(round_of(index, *([one_call] if index < 2 else [other])) for index in range(4))
    assert [caution.code for caution in Measurement("x", {}, most).cautions] == ["one-call", "not-warm"]
    few = tuple(round_of(index, *([one_call] if index < 1 else [other])) for index in range(4))
    assert [caution.code for caution in Measurement("x", {}, few).cautions] == ["not-warm"]
