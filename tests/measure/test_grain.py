"""How finely counters count, against counters whose steps are known, on a clock that does not wait."""

from collections.abc import Callable

import pytest
from fake_machine import Bench

from stopwav.measure.counter_check import LOOK_S, STEPS, counter_resolutions
from stopwav.measure.meters import Counter, Meter, Meters


def meters(*counters: Counter, tick_s: float = 0.1) -> Meters:
    return Meters((Meter("bench", counters, tick_s),), (), ())


def stepped(bench: Bench, every_s: float, watts: float) -> Callable[[], int]:
    """A counter at so many watts that shows what was spent as of its last step."""
    return lambda: round(int(bench.now_s / every_s + 1e-9) * every_s * watts * 1e6)


def test_the_step_and_its_interval_come_back() -> None:
    """80 W shown every 100 ms are steps of 8 J."""
    bench = Bench()
    grain = counter_resolutions(meters(Counter("gpu", stepped(bench, 0.1, 80))), bench)["gpu"]
    assert grain.step_j == pytest.approx(8)
    assert grain.interval_s == pytest.approx(0.1, rel=0.05)
    assert bench.now_s == pytest.approx(STEPS * 0.1, abs=0.1)


def test_the_coarser_of_two_counters_speaks_for_their_part() -> None:
    bench = Bench()
    both = [Counter("cpu package", stepped(bench, 0.1, watts)) for watts in (20, 50)]
    assert counter_resolutions(meters(*both), bench)["cpu package"].step_j == pytest.approx(5)


def test_a_counter_too_coarse_to_wait_for_or_dead_says_so() -> None:
    bench = Bench()
    slow = Counter("battery", stepped(bench, 1.5, 20))
    grain = counter_resolutions(meters(slow, tick_s=0.5), bench)["battery"]
    assert (grain.step_j, grain.interval_s) == (None, None)
    assert "advanced 1 times" in grain.note
    assert bench.now_s < LOOK_S + 0.1

    def lost() -> int:
        raise OSError("GPU is lost")

    assert "GPU is lost" in counter_resolutions(meters(Counter("gpu", lost)), bench)["gpu"].note
