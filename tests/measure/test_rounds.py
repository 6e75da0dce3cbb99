"""`measure` and `race` through their public names, on workloads whose times are known."""

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import stopwav
from stopwav import Plan

# Small enough for a test, the same rules as a full plan.
SHORT = Plan(rounds=3, min_values=5, max_values=10, warmup_s=0.02, min_values_s=0.05, max_values_s=0.3, time_limit_s=60)


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
    found = stopwav.measure(Spin(0.012, tmp_path / "log", params={"ms": 12}), SHORT)
    assert (found.name, found.params, found.status) == ("spin", {"ms": 12}, "ok")
    told_s = iter([int(line) / 1e9 for line in (tmp_path / "log").read_text().split()])
    over_s, around_s = [], []
    for one in found.rounds:
        assert one.samples is not None
        assert one.samples.loops == 1
        # The first call, the warm-up, one to see how long a call is, the values, and one for the memory.
        before = 2 + len(one.samples.warmup_s)
        values = [next(told_s) for _ in range(before + len(one.samples.values_s) + 1)][before:-1]
        for value_s, stages, truth_s in zip(one.samples.values_s, one.samples.stages_s, values, strict=True):
            over_s.append(stages["spinning"] - truth_s)
            around_s.append(value_s - stages["spinning"])
    assert next(told_s, None) is None
    assert min(over_s + around_s) >= -1e-9
    # A busy machine makes the script late, and between two clocks now and then does something else.
    assert max(median(over_s), median(around_s)) < 0.01 * 0.012 + 50e-6
    assert 0.012 <= found.stages["spinning"].value <= found.time.value  # type: ignore[operator]
    assert found.time.low <= found.time.value <= found.time.high  # type: ignore[operator]
    assert found.time.n == len(over_s)
    memory = found.rounds[0].memory
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


@dataclass(frozen=True)
class Scripted:
    """Moves the clock of its process, which stands still otherwise, by what is scripted for the round."""

    name: str
    log: Path
    times_s: tuple[float, ...]
    params: dict[str, float] = field(default_factory=dict)

    def setup(self) -> Callable[[], object]:
        before = self.log.read_text() if self.log.exists() else ""
        self.log.write_text(before + self.name)
        took_ns, now_ns = round(1e9 * self.times_s[before.count(self.name)]), [0]
        time.perf_counter_ns = lambda: now_ns[0]

        def call() -> None:
            now_ns[0] += took_ns

        return call


def test_a_race_is_interleaved_and_finds_the_faster(tmp_path: Path) -> None:
    log = tmp_path / "order"
    # Half as long in every round, and what the rounds share cancels.
    first = Scripted("a", log, (0.020, 0.030, 0.026, 0.040))
    second = Scripted("b", log, (0.010, 0.0151, 0.0129, 0.020))
    race = stopwav.race(first, second, Plan(rounds=4, min_values=5, max_values=5, warmup_s=0.01, min_values_s=0.01))
    assert log.read_text() == "abbaabba"
    assert [one.median_s for one in race.b.rounds] == pytest.approx(second.times_s)
    assert race.verdict.kind == "faster"
    assert race.verdict.ratio == pytest.approx(0.5, rel=0.01)
    assert stopwav.Race(race.b, race.a, 0.01).verdict.kind == "slower"


def test_a_race_goes_on_from_the_rounds_that_are_had(tmp_path: Path) -> None:
    log = tmp_path / "order"
    plan = Plan(rounds=4, min_values=5, max_values=5, warmup_s=0.01, min_values_s=0.01)
    first = Scripted("a", log, (0.020, 0.030, 0.026, 0.040))
    second = Scripted("b", log, (0.010, 9.0, 0.0151, 0.0129, 0.020))
    begun = stopwav.race(first, second, plan, only=[0, 1])
    assert log.read_text() == "abba"
    told: list[tuple[int, int]] = []
    # The second round of b was lost.
    had = (begun.a.rounds, begun.b.rounds[:1])
    race = stopwav.race(first, second, plan, had=had, on_round=lambda side, one: told.append((side, one.index)))
    assert log.read_text() == "abba" + "b" + "ab" + "ba"
    assert told == [(1, 1), (0, 2), (1, 2), (1, 3), (0, 3)]
    assert race.a.rounds[:2] == begun.a.rounds
    assert race.pairs[0] == pytest.approx([0.020, 0.030, 0.026, 0.040])
    assert race.pairs[1] == pytest.approx([0.010, 0.0151, 0.0129, 0.020])


def test_a_race_of_rounds_that_are_had_measures_nothing_and_has_a_verdict(tmp_path: Path) -> None:
    plan = Plan(rounds=3, min_values=5, max_values=5, warmup_s=0.01, min_values_s=0.01)
    first = Scripted("a", tmp_path / "order", (0.020, 0.030, 0.040))
    rounds = stopwav.measure(first, plan).rounds
    # Three rounds against two of them: the two that both have are paired.
    race = stopwav.race(first, first, plan, had=(rounds, rounds[1:]), only=())
    assert (tmp_path / "order").read_text() == "aaa"
    assert race.pairs == ([0.030, 0.040], [0.030, 0.040])
    assert race.verdict.ratio == 1.0
    assert stopwav.race(first, first, plan, had=(rounds, ()), only=()).pairs == ([], [])


def test_no_verdict_from_one_round() -> None:
    with pytest.raises(stopwav.StopwavError, match="rounds=1"):
        stopwav.race(lambda: None, lambda: None, Plan(rounds=1))


def test_a_workload_that_fails_is_a_result_with_a_reason() -> None:
    found = stopwav.measure(lambda: 1 / 0, SHORT)
    assert found.status == "error"
    assert found.time.value is None
    assert "ZeroDivisionError" in found.time.note


def test_a_round_beyond_its_time_limit_is_a_timeout_and_the_others_count(tmp_path: Path) -> None:
    hung = tmp_path / "hung"

    def call() -> None:
        if not hung.exists():
            hung.touch()
            time.sleep(1000)
        time.sleep(0.01)

    # Long enough for the second round on any machine: it takes half a second on a quiet one.
    plan = Plan(rounds=2, min_values=5, max_values=5, warmup_s=0.01, min_values_s=0.01, time_limit_s=8)
    found = stopwav.measure(call, plan)
    assert [one.status for one in found.rounds] == ["timeout", "ok"]
    assert found.status == "ok"
    assert [caution.code for caution in found.cautions] == ["rounds-failed"]


def test_a_throttled_round_is_kept_beside_its_repetition() -> None:
    good = stopwav.measure(Spin(0.01), Plan(rounds=1, min_values=5, max_values=5, warmup_s=0, min_values_s=0)).rounds[0]
    from dataclasses import replace

    throttled = replace(good, throttled=True)
    both = stopwav.Measurement("x", {}, (throttled, good))
    assert both.good == (good,)
    assert [caution.code for caution in both.cautions] == ["throttled"]
    assert stopwav.Measurement("x", {}, (throttled, replace(good, status="error"))).good == (throttled,)


def test_rounds_that_are_had_are_not_taken_again_and_a_repetition_that_is_owed_is() -> None:
    from dataclasses import replace

    whole = stopwav.measure(Spin(0.001), SHORT)
    hot = (replace(whole.rounds[0], throttled=True), whole.rounds[1])
    taken: list[stopwav.Round] = []
    found = stopwav.measure(Spin(0.001), SHORT, had=hot, on_round=taken.append)
    # A machine that throttles may owe more.
    assert [one.index for one in taken][:1] == [0]
    assert {one.index for one in taken} == {0, 2}
    assert found.rounds == (*hot, *taken)


@pytest.mark.parametrize(
    ("wrong", "told"),
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
def test_a_plan_that_cannot_be_followed_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(stopwav.StopwavError, match=re.escape(told)):
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
    ("thing", "told"),
    [
        (asynchronous, "asynchronous: calling it runs nothing; wrap it in asyncio.run"),
        (generator, "a generator: calling it runs nothing"),
        (NameOnly(), "no `params`"),
        (3, "3 is not a function"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_runs(thing: Any, told: str) -> None:
    with pytest.raises(stopwav.StopwavError, match=told):
        stopwav.measure(thing, SHORT)
    with pytest.raises(stopwav.StopwavError, match=told):
        stopwav.race(lambda: None, thing, SHORT)


def test_what_cannot_be_sent_to_a_process_is_said() -> None:
    lock = threading.Lock()
    with pytest.raises(stopwav.StopwavError, match=r"cannot pickle '_thread.lock' object; make such things in it"):
        stopwav.measure(lambda: lock.acquire(), SHORT)


def test_a_race_whose_one_side_fails_asks_for_no_more_rounds() -> None:
    found = stopwav.race(lambda: 1 / 0, lambda: None, SHORT).verdict
    assert (found.kind, found.more_rounds) == ("undecided", None)
    assert "ZeroDivisionError" in found.note


def test_a_threshold_below_zero_is_refused_before_anything_runs() -> None:
    with pytest.raises(stopwav.StopwavError, match="threshold=-1"):
        stopwav.race(lambda: None, lambda: None, SHORT, threshold=-1)


def test_a_measurement_of_no_round_says_so() -> None:
    found = stopwav.measure(lambda: None, SHORT, only=[])
    assert (found.status, found.time.value, found.time.note) == ("skipped", None, "no round was taken")
