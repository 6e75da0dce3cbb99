"""The energy of an engine, measured in this process with short windows; and what is stored of a meter log."""

import time
from itertools import pairwise
from pathlib import Path

import pytest
from compare_runs import FAST
from metered import meter_nothing, meter_steadily

from stopwav import StopwavError
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.studies.compare.engine_runner import EngineRunner
from stopwav.studies.compare.external_meter import await_readings, copy_readings
from stopwav.studies.compare.passes import find_run_meters
from stopwav.studies.compare.pieces import meter_log_of, resolutions_of, windows_span
from stopwav.studies.compare.spec import CompareSpec


@pytest.fixture
def unmetered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a meter."""
    meter_nothing(monkeypatch)


@pytest.mark.usefixtures("unmetered")
def test_windows_for_an_external_meter_have_wall_clock_times(tmp_path: Path) -> None:
    begin_s = time.time()
    runner = EngineRunner("fake,batch_ms=5", "cpu")
    data = runner.energy(10, 0, FAST, 0.2, True)
    moments = [(w["begin_s"], w["begin_s"] + w["seconds"]) for w in (data["idle"], *data["windows"])]
    assert len(moments) >= 4
    assert begin_s <= moments[0][0]
    assert all(end <= after + 0.02 for (_, end), (after, _) in pairwise(moments))
    assert moments[-1][1] <= time.time() + 0.02
    for window in data["windows"]:
        assert window["seconds"] >= 0.05
        assert window["iterations"] >= 1
    record = _recorded(tmp_path, data)
    assert windows_span(record) == pytest.approx((moments[0][0], moments[-1][1]))


@pytest.mark.usefixtures("unmetered")
def test_without_any_meter_nothing_is_run() -> None:
    runner = EngineRunner("fake,batch_ms=5", "cpu")
    with pytest.raises(StopwavError, match="no meter: RAPL: none here"):
        runner.energy(10, 0, FAST, 0.2, False)


def test_counter_sampled_power_and_resolution_of_a_gpu_are_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter_steadily(monkeypatch)
    data = EngineRunner("fake,batch_ms=5", "cpu").energy(10, 0, FAST, 0.2, False)
    record = _recorded(tmp_path, data)
    for window in data["windows"]:
        assert window["sampled_joules"] == {"gpu": pytest.approx(200 * window["seconds"])}
        assert window["unsampled"] == {}
    with Record.resume(record.path) as opened:
        assert find_run_meters(CompareSpec(engines=["fake"], energy=True), opened)
    resolution = resolutions_of(Record.read(record.path))["gpu"]
    assert resolution.step_j is not None
    assert resolution.interval_s is not None
    assert resolution.step_j > 0
    assert resolution.interval_s > 0


def test_the_readings_of_a_log_during_the_windows_are_copied_into_the_run(tmp_path: Path) -> None:
    window = {"seconds": 2.0, "iterations": 1, "joules": {}, "missing": {}}
    data = {
        "source": "external meter",
        "tick_s": 0.0,
        "whole": [],
        "idle": {"begin_s": 1e9, **window},
        "windows": [{"begin_s": 1e9 + 2, **window}],
    }
    path = tmp_path / "meter.csv"
    record = _recorded(tmp_path, data)
    # What the meter has written by now is copied, nothing twice; the rest later, up to the end of the last window.
    for log, stored in (("", []), ([0, 1], [0, 1]), ([0, 1, 2, 3], [0, 1, 2, 3]), (range(-50, 50), [0, 1, 2, 3, 4])):
        path.write_text("timestamp,watts\n" + "".join(f"{1e9 + at},{at + 100}\n" for at in log))
        with Record.resume(record.path) as opened:
            copy_readings(path, opened)
        readings = meter_log_of(Record.read(record.path))
        assert [at - 1e9 for at in (readings.times_s if readings else ())] == stored
    # All is there: no file is needed any more, and nobody waits for it.
    path.unlink()
    with Record.resume(record.path) as opened:
        assert await_readings(path, opened)


def _recorded(folder: Path, data: dict[str, object]) -> Record:
    header = Header(stopwav="0.1.0", study="compare", started="2026-01-01T00:00:00Z", spec={})
    with Record.create(folder / "compare-0.jsonl", header) as record:
        record.append(Piece(key=["energy", 0, "fake", 10], status="ok", data=data))
    return record
