"""Energy against counters whose joules are known, on a clock that does not wait."""

from __future__ import annotations

import time

import pytest
from fake_machine import Bench
from hypothesis import given
from hypothesis import strategies as st

from stopwav.measure.energy import EnergyReading, measure_energy
from stopwav.measure.meter import Counter, Meter, NoMeter
from stopwav.measure.meters import nvml_meter
from stopwav.measure.nvml import NoNvml, load_nvml

RANGE_UJ = 262_143_328_850  # what a real package reports


@given(start=st.integers(0, RANGE_UJ - 1), steps=st.lists(st.integers(0, RANGE_UJ - 1), max_size=20))
def test_a_counter_that_wraps_loses_no_microjoule(start: int, steps: list[int]) -> None:
    counter = Counter("cpu package", lambda: 0, RANGE_UJ)
    spent, raw = 0, start
    for step in steps:
        after = (raw + step) % RANGE_UJ
        difference = counter.spent_uj(raw, after)
        assert difference is not None
        spent, raw = spent + difference, after
    assert spent == sum(steps)


def test_a_counter_without_a_range_that_goes_back_gives_no_value() -> None:
    assert Counter("gpu", lambda: 0).spent_uj(10, 9) is None


def test_known_power_comes_back_gross_and_net() -> None:
    bench = Bench()
    for part, idle_w, work_w in [("gpu", 50.0, 300.0), ("cpu package", 10.0, 40.0), ("dram", 2.0, 5.0)]:
        bench.part(part, idle_w, work_w)
    meter = Meter("bench", tuple(map(bench.counter, bench.spent)), tick_s=0.001)
    reading = measure_energy(bench.work(0.3), meter, clock=bench)
    assert reading.iterations == 7
    assert reading.window_s == pytest.approx(2.1)
    assert reading.parts["gpu"].gross_j == pytest.approx(630)
    assert reading.parts["gpu"].idle_w == pytest.approx(50)
    assert reading.parts["gpu"].net_j == pytest.approx(525)
    assert reading.mean_w("gpu") == pytest.approx(300)
    assert reading.gross_j == pytest.approx(2.1 * 345)
    assert reading.net_j == pytest.approx(2.1 * 283)
    assert reading.note is None


@given(
    call_s=st.floats(0.001, 5),
    idle_w=st.floats(1, 100),
    extra_w=st.floats(0, 400),
    phase_s=st.floats(0, 0.1),
)
def test_a_counter_that_ticks_is_off_by_no_more_than_a_tick(
    call_s: float, idle_w: float, extra_w: float, phase_s: float
) -> None:
    bench, shown = Bench(), {"uj": 0, "tick": 0}
    bench.part("gpu", idle_w, idle_w + extra_w)

    def refresh() -> None:  # the counter shows what was spent as of its last tick
        tick = int((bench.now_s + phase_s) / 0.1)
        if tick != shown["tick"]:
            shown.update(tick=tick, uj=round(bench.spent["gpu"] * 1e6))

    bench.on_advance.append(refresh)
    meter = Meter("bench", (Counter("gpu", lambda: shown["uj"]),), tick_s=0.1)
    reading = measure_energy(bench.work(call_s), meter, clock=bench)
    assert reading.window_s >= 2
    tick_j = 0.106 * (idle_w + extra_w)  # a tick, and the pause in which its start is looked for
    assert reading.parts["gpu"].gross_j == pytest.approx((idle_w + extra_w) * reading.window_s, abs=tick_j)


def test_short_calls_close_the_window_on_a_tick_so_its_grain_hardly_matters() -> None:
    bench, shown = Bench(), {"uj": 0, "tick": 0}
    bench.part("gpu", 50, 300)

    def refresh() -> None:
        tick = int(bench.now_s / 0.1 + 0.37)
        if tick != shown["tick"]:
            shown.update(tick=tick, uj=round(bench.spent["gpu"] * 1e6))

    bench.on_advance.append(refresh)
    meter = Meter("bench", (Counter("gpu", lambda: shown["uj"]),), tick_s=0.1)
    reading = measure_energy(bench.work(0.001), meter, clock=bench)
    assert reading.mean_w("gpu") == pytest.approx(300, rel=0.005)
    assert reading.parts["gpu"].idle_w == pytest.approx(50, rel=0.05)


def test_work_that_draws_less_than_idling_stays_negative() -> None:
    bench = Bench()
    bench.part("gpu", 50, 40)
    reading = measure_energy(bench.work(1), Meter("bench", (bench.counter("gpu"),), 0.001), clock=bench)
    assert reading.parts["gpu"].net_j == pytest.approx(-20)


def test_a_counter_that_stands_still_gives_no_value_and_says_so() -> None:
    bench = Bench()
    bench.part("gpu", 50, 300)
    bench.part("cpu package", 0, 0)
    bench.part("dram", 2, 5)
    meter = Meter("bench", tuple(map(bench.counter, bench.spent)), tick_s=0.001)
    reading = measure_energy(bench.work(1), meter, clock=bench)
    assert "cpu package" not in reading.parts
    assert reading.total is None
    assert reading.gross_j is None
    assert reading.note is not None
    assert "cpu package: no value, the counter did not advance in 2.0 s" in reading.note
    assert "no total without cpu package" in reading.note


def test_a_dead_counter_alone_ends_the_window_all_the_same() -> None:
    bench = Bench()
    reading = measure_energy(bench.work(0.01), Meter("bench", (Counter("gpu", lambda: 7),), 0.1), clock=bench)
    assert reading.parts == {}
    assert bench.now_s < 6


def test_a_counter_still_only_while_idle_gives_gross_but_no_net() -> None:
    bench = Bench()
    bench.part("gpu", 0, 300)
    reading = measure_energy(bench.work(1), Meter("bench", (bench.counter("gpu"),), 0.001), whole=["gpu"], clock=bench)
    assert reading.gross_j == pytest.approx(300 * reading.window_s)
    assert reading.net_j is None
    assert reading.note is not None
    assert "no net value" in reading.note


def test_a_counter_that_goes_back_midway_gives_no_value() -> None:
    bench = Bench()
    bench.part("gpu", 50, 300)
    meter = Meter("bench", (Counter("gpu", lambda: round(bench.spent["gpu"] * 1e6) if bench.now_s < 3 else 0),), 0.001)
    reading = measure_energy(bench.work(0.3), meter, clock=bench)
    assert reading.parts == {}
    assert "gpu: no value, the counter went back" in (reading.note or "")


def test_a_counter_that_breaks_midway_gives_no_value() -> None:
    bench = Bench()
    bench.part("gpu", 50, 300)

    def read_uj() -> int:
        if bench.now_s > 3:
            raise OSError("GPU is lost")
        return round(bench.spent["gpu"] * 1e6)

    reading = measure_energy(bench.work(0.3), Meter("bench", (Counter("gpu", read_uj),), 0.001), clock=bench)
    assert reading.parts == {}
    assert "the counter could not be read (GPU is lost)" in (reading.note or "")


def test_a_counter_that_wraps_several_times_in_one_long_window_is_followed() -> None:
    bench, range_uj = Bench(), 1_000_000_000  # 1000 J: a wrap every 3.3 s at 300 W
    bench.part("gpu", 50, 300)
    counter = Counter("gpu", lambda: round(bench.spent["gpu"] * 1e6) % range_uj, range_uj)
    reading = measure_energy(bench.work(0.5), Meter("bench", (counter,), 0.001), min_window_s=30, clock=bench)
    assert reading.parts["gpu"].gross_j == pytest.approx(300 * reading.window_s)


def test_without_a_meter_nothing_runs_and_the_reason_is_the_note() -> None:
    def call() -> None:
        raise AssertionError("ran without a meter")

    reading = measure_energy(call, NoMeter("no sensor in a teapot"))
    assert reading == EnergyReading("energy", {}, None, 0.0, 0, "no energy: no sensor in a teapot")


@pytest.mark.gpu
def test_a_real_gpu_draws_a_believable_power() -> None:
    nvml = load_nvml()
    if isinstance(nvml, NoNvml):
        pytest.skip(nvml.reason)
    reading = measure_energy(lambda: time.sleep(0.05), nvml_meter(nvml), whole=[])
    for part in reading.parts:
        assert 1 < reading.mean_w(part) < 2000
