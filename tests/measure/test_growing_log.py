"""A log that somebody is writing: waiting for the reading that is due, with a limit, and what is said when it fails."""

import threading
import time
from pathlib import Path

import pytest
from fake_machine import Bench

from stopwav import StopwavError
from stopwav.measure import meter_log
from stopwav.measure.meter_log import (
    MAX_WAIT_S,
    MIN_WAIT_S,
    Awaited,
    read_growing_log,
    read_meter_log,
    wait_for_reading,
)

START_S = 1.7e9


def lines(*moments_s: float, watts: float = 5.0) -> str:
    return "".join(f"{START_S + moment_s},{watts}\n" for moment_s in moments_s)


def wait(path: Path, bench: Bench, until_s: float) -> Awaited:
    return wait_for_reading(path, START_S + until_s, clock=bench, epoch_s=lambda: START_S + bench.now_s)


def write_late(path: Path, bench: Bench, late_s: float, every_s: float = 1.0, stops_s: float = 1e9) -> None:
    """Let the log have a reading for each second, written so many seconds late, until the meter stops."""
    path.write_text(lines(-2, -1))

    def follow() -> None:
        last_s = min(bench.now_s - late_s, stops_s)
        count = int(last_s / every_s) + 1 if last_s >= 0 else 0
        path.write_text(lines(-2 * every_s, -every_s, *(every_s * index for index in range(count))))

    bench.on_advance.append(follow)


@pytest.mark.parametrize("late_s", [0.0, 3.0, 60.0])
def test_a_reading_that_comes_late_is_waited_for(late_s: float, tmp_path: Path) -> None:
    bench = Bench()
    write_late(tmp_path / "meter.csv", bench, late_s)
    bench.sleep(100.4)
    awaited = wait(tmp_path / "meter.csv", bench, 100.4)
    assert awaited.fault == ""
    assert awaited.log is not None
    assert awaited.log.times_s[-1] == START_S + 101
    assert awaited.waited_s == pytest.approx(0.6 + late_s, abs=0.6)


def test_a_meter_that_stopped_is_waited_for_in_vain_but_not_for_long(tmp_path: Path) -> None:
    bench = Bench()
    write_late(tmp_path / "meter.csv", bench, 0.0, stops_s=7)
    bench.sleep(10.4)
    awaited = wait(tmp_path / "meter.csv", bench, 10.4)
    assert awaited.waited_s == pytest.approx(MIN_WAIT_S, abs=0.5)
    assert awaited.log is not None
    assert awaited.log.times_s[-1] == START_S + 7
    assert "waited 15 s for a reading at" in awaited.fault
    assert "--resume" in awaited.fault


def test_a_slow_log_has_more_time(tmp_path: Path) -> None:
    """A reading every 10 s: five intervals are longer than 15 s."""
    bench = Bench()
    write_late(tmp_path / "meter.csv", bench, 28.0, every_s=10)
    bench.sleep(11)
    assert wait(tmp_path / "meter.csv", bench, 11).waited_s == pytest.approx(37, abs=0.6)


def test_a_log_that_never_came_is_named(tmp_path: Path) -> None:
    awaited = wait(tmp_path / "meter.csv", Bench(), 1)
    assert (awaited.log, awaited.waited_s) == (None, pytest.approx(MIN_WAIT_S, abs=0.5))
    assert "meter.csv: cannot be read (No such file or directory)" in awaited.fault


def test_a_clock_of_another_zone_is_told_at_once(tmp_path: Path) -> None:
    path, bench = tmp_path / "meter.csv", Bench()
    path.write_text(lines(-3601, -3600))
    behind = wait(path, bench, 1)
    assert behind.waited_s < 1
    assert ", 60 min earlier; set the meter's clock and time zone as on this machine" in behind.fault
    # Ahead, its readings would be taken for those of other work.
    path.write_text(lines(*range(-60, 3601)))
    with pytest.raises(StopwavError, match="3600 s in the future; set the meter's clock"):
        read_growing_log(path, lambda: START_S)
    assert "s in the future" in wait(path, Bench(), 1).fault


def test_a_log_that_grows_for_ever_too_late_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_log, "POLL_S", 5.0)
    bench = Bench()
    path = tmp_path / "meter.csv"
    # Each second brings the readings of half a second.
    bench.on_advance.append(lambda: path.write_text(lines(-2, -1, *(at / 2 for at in range(int(bench.now_s) + 1)))))
    bench.sleep(280)
    assert wait(path, bench, 290).waited_s == pytest.approx(MAX_WAIT_S, abs=6)


def test_a_log_that_has_just_begun_is_no_fault_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    for text in ("", "timestamp,watts\n", "timestamp,watts\n1700000000,5\n1700"):
        path.write_text(text)
        assert len(read_growing_log(path, fewest=0).times_s) == text.count("\n") // 2
        with pytest.raises(StopwavError, match="needs 2"):
            read_growing_log(path)


def test_a_rotated_log_is_read_with_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    (tmp_path / "meter.csv.1").write_text("timestamp,watts\n" + lines(0, 1, 2))
    path.write_text("timestamp,watts\n" + lines(3, 4))
    assert [at - START_S for at in read_meter_log(path).times_s] == [0, 1, 2, 3, 4]
    # A file of that name which is not what came before does not count.
    (tmp_path / "meter.csv.1").write_text("timestamp,watts\n" + lines(8, 9))
    assert [at - START_S for at in read_meter_log(path).times_s] == [3, 4]
    (tmp_path / "meter.csv.1").write_bytes(b"\xff\n")
    assert [at - START_S for at in read_meter_log(path).times_s] == [3, 4]


def test_a_real_writer_that_flushes_late(tmp_path: Path) -> None:
    """A thread writes a line every 50 ms, in pieces that end inside a line, half a second late."""
    path, stop = tmp_path / "meter.csv", threading.Event()

    def write() -> None:
        pending = "timestamp,watts\n"
        with path.open("w") as file:
            while not stop.wait(0.05):
                pending += f"{time.time() - 0.5:.3f},5.8\n"
                file.write(pending[:-3])
                file.flush()
                pending = pending[-3:]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        begin_s = time.time()
        awaited = wait_for_reading(path, begin_s + 0.1)
    finally:
        stop.set()
        writer.join()
    assert awaited.fault == ""
    assert awaited.log is not None
    assert awaited.log.times_s[-1] >= begin_s + 0.1
    assert set(awaited.log.watts) == {5.8}
    assert awaited.waited_s > 0.4
