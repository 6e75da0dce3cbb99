"""The log of an external meter: integrals worked out by hand, and what is wrong with a log named in one line."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav import StopwavError
from stopwav.measure.meter_log import MeterLog, read_meter_log


def log(tmp_path: Path, text: str) -> MeterLog:
    (tmp_path / "meter.csv").write_text(text)
    return read_meter_log(tmp_path / "meter.csv")


def test_the_integral_of_a_ramp_by_hand() -> None:
    """10 W at 100 s, rising by 2 W a second: from 101 to 104 it is (12 + 18) / 2 · 3 = 45 J."""
    ramp = MeterLog((100.0, 102.0, 103.0, 105.0), (10.0, 14.0, 16.0, 20.0))
    assert ramp.joules(101, 104) == pytest.approx(45)
    assert ramp.joules(100, 105) == pytest.approx(75)
    # A reading at either end counts as an end, not as one inside.
    assert ramp.joules(100.5, 103.5) == pytest.approx((11 + 17) / 2 * 3)


def test_a_step_is_a_slope_between_its_two_readings() -> None:
    step = MeterLog((0.0, 1.0, 2.0, 3.0, 4.0), (5.0, 5.0, 9.0, 9.0, 9.0))
    assert step.joules(0, 4) == pytest.approx(5 + 7 + 9 + 9)


@given(
    watts=st.lists(st.floats(0, 500), min_size=6, max_size=30),
    cut=st.floats(0.3, 0.7),
)
def test_two_halves_are_the_whole(watts: list[float], cut: float) -> None:
    # Ten readings a second, so that both halves have enough of them.
    dense = MeterLog(
        tuple(1e9 + index / 10 for index in range(10 * len(watts))), tuple(w for w in watts for _ in range(10))
    )
    begin_s, end_s = dense.times_s[0], dense.times_s[-1]
    middle_s = begin_s + cut * (end_s - begin_s)
    halves = dense.joules(begin_s, middle_s) + dense.joules(middle_s, end_s)
    assert halves == pytest.approx(dense.joules(begin_s, end_s), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,watts\n1700000000,5\n1700000001.5,6\n",
        "1700000000,5\n1700000001.5,6\n",
        "Power (W),note,Time\n5,x,1700000000\n6,y,1700000001.5\n",
        "time,power_w\n2023-11-14T22:13:20Z,5\n\n2023-11-14T23:13:21.5+01:00,6\n",
        # A line that is being written; a logger that was restarted; lines that overtook each other; two in one moment.
        "timestamp,watts\n1700000000,5\n1700000001.5,6\n1700000002.5,1",
        "timestamp,watts\n1700000000,5\ntimestamp,watts\n1700000001.5,6\n",
        "timestamp;watts\n1700000001.5;6\n1700000000;5\n",
        "timestamp,watts\n1700000000,5\n1700000001.5,7\n1700000001.5,5\n1700000001.5,6\n",
    ],
)
def test_what_a_log_may_look_like(text: str, tmp_path: Path) -> None:
    assert log(tmp_path, text) == MeterLog((1700000000.0, 1700000001.5), (5.0, 6.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timestamp,power_mW\n1,5000\n2,5000\n", "no column in watts in the header 'timestamp, power_mW'"),
        ("timestamp,energy_J\n1,5\n2,5\n", "no column in watts"),
        ("when,watts\n1,5\n2,5\n", "no column of times"),
        ("timestamp,watts\n100,5\n101,5\n102,5\n90,5\n", ":5: its time is 12 s before that of a line above"),
        ("timestamp,watts\n1700000000000,5\n1700000001000,5\n", "milliseconds"),
        ("timestamp,watts\n10,much\n", ":2: '10,much' is not a reading"),
        ("timestamp,watts\n10\n", ":2: '10' is not a reading"),
        ("timestamp,watts\n10,nan\n", "not finite"),
        ("timestamp,watts\n10,-5\n", "below zero"),
        ("timestamp,watts\n2023-11-14T22:13:20,5\n", "without its zone"),
        ("timestamp,watts\n10,5\n", "readings: 1, needs"),
        ("timestamp,watts\n10,5\n11,5", "readings: 1, needs"),
        ("timestamp,watts\n10,5\n10,5\n", "readings: 1, needs"),
        ("timestamp,power\n10,5\n11,5\n", "no column in watts in the header 'timestamp, power'"),
        ("", "readings: 0, needs"),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StopwavError) as error:
        log(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_log_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match="cannot be read"):
        read_meter_log(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("begin_s", "end_s", "message"),
    [
        (99, 102, "outside the meter log"),
        (108, 111, "outside the meter log"),
        (101.1, 101.9, "has 0 readings in a window of 0.8 s"),
        (102, 108, "a gap of 4.0 s"),
    ],
)
def test_windows_that_the_log_does_not_cover_have_no_energy(begin_s: float, end_s: float, message: str) -> None:
    gapped = MeterLog((100.0, 101.0, 102.0, 103.0, 107.0, 108.0, 109.0, 110.0), (5.0,) * 8)
    with pytest.raises(StopwavError, match=message):
        gapped.joules(begin_s, end_s)
    assert gapped.joules(100, 103) == pytest.approx(15)


def test_the_part_around_a_window_says_the_same_of_it() -> None:
    whole = MeterLog(tuple(map(float, range(100))), tuple(float(index % 7) for index in range(100)))
    part = whole.around(40.3, 50.7)
    assert (part.times_s[0], part.times_s[-1]) == (40.0, 51.0)
    assert part.joules(40.3, 50.7) == pytest.approx(whole.joules(40.3, 50.7))


def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "device.csv"):
        with pytest.raises(StopwavError, match=rf"meter log .*{name}: is not a file; let the meter write to one"):
            read_meter_log(tmp_path / name)
