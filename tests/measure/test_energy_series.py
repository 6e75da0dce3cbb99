"""Energy of work that repeats, against counters whose joules are known, on a clock that does not wait."""

import pytest
from fake_machine import Bench

from stopwav.measure.energy_series import EXTERNAL_WINDOW_S, idle_window, whole_joules, with_external, work_windows
from stopwav.measure.meter import Meter, NoMeter

EPOCH_S = 1.7e9


def bench(*parts: tuple[str, float, float]) -> tuple[Bench, Meter]:
    made = Bench()
    for part in parts:
        made.part(*part)
    return made, Meter("bench", tuple(map(made.counter, made.spent)), tick_s=0.001)


def test_steady_work_ends_after_three_windows_of_two_seconds() -> None:
    made, meter = bench(("gpu", 50, 300))
    idle = idle_window(meter, clock=made, epoch_s=lambda: EPOCH_S + made.now_s)
    windows = work_windows(made.work(0.3), meter, time_s=60, clock=made, epoch_s=lambda: EPOCH_S + made.now_s)
    assert len(windows) == 3
    assert idle.joules["gpu"] / idle.seconds == pytest.approx(50)
    for window in windows:
        assert window.iterations == 7
        assert window.seconds == pytest.approx(2.1)
        assert window.joules["gpu"] == pytest.approx(630)
    # Wall-clock times: one after the other, and where the script was then.
    assert EPOCH_S + 2 <= windows[0].begin_s < windows[0].end_s <= windows[1].begin_s + 1e-3
    assert windows[-1].end_s == pytest.approx(EPOCH_S + made.now_s, abs=1e-3)


def test_work_that_varies_goes_on_for_the_time_given() -> None:
    made, meter = bench(("gpu", 50, 300))
    lengths = iter([2.5, 7.0] * 100)  # each call is a window of its own
    windows = work_windows(lambda: made.work(next(lengths))(), meter, time_s=60, clock=made)
    assert 60 <= sum(window.seconds for window in windows) < 70


def test_a_looser_precision_stops_sooner() -> None:
    def count(precision: float) -> int:
        made, meter = bench(("gpu", 50, 300))
        lengths = iter([0.5, 0.4] * 1000)
        return len(work_windows(lambda: made.work(next(lengths))(), meter, time_s=60, precision=precision, clock=made))

    assert count(0.5) == 3 < count(0.0001)


def test_without_counters_the_time_is_filled_and_windows_are_long_enough_for_a_log() -> None:
    made = Bench()
    meter = with_external(NoMeter("none here"))
    windows = work_windows(made.work(0.5), meter, time_s=60, clock=made, epoch_s=lambda: EPOCH_S + made.now_s)
    assert [window.seconds for window in windows] == [EXTERNAL_WINDOW_S] * 6
    assert all(not window.joules for window in windows)
    assert windows[0].begin_s == EPOCH_S


def test_a_counter_that_stands_still_is_named() -> None:
    made, meter = bench(("gpu", 50, 300), ("dram", 0, 0))
    (window, *_) = work_windows(made.work(1), with_external(meter), time_s=1, clock=made)
    assert window.seconds >= EXTERNAL_WINDOW_S
    assert set(window.joules) == {"gpu"}
    assert "did not advance" in window.missing["dram"]


def test_a_total_needs_every_part() -> None:
    assert whole_joules({"gpu": 5, "cpu package": 2, "dram": 1, "cpu core": 1}, ["gpu", "cpu package", "dram"]) == 8
    assert whole_joules({"gpu": 5}, ["gpu", "cpu package", "dram"]) is None
    assert whole_joules({"battery": 7}, ["cpu package", "dram"]) == 7
    assert whole_joules({"gpu": 5}, []) is None
