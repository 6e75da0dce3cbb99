"""A comparison beside a meter whose log grows, is late, and is gone afterwards: the run holds what it needs."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import command
from compare_runs import run
from metered import skip_round, unmetered_runner

import stopwav
from stopwav.measure import energy_series, meter_log
from stopwav.measure.meter import Counter, Meter, Meters
from stopwav.record import Record, Result
from stopwav.studies.compare import energy_pass, engine_runner, forecast, passes
from stopwav.studies.compare.engine_rounds import EngineRounds
from stopwav.studies.compare.spec import CompareSpec

# A meter of 80 W: a line every 20 ms, each on the disk two thirds of a second after its time.
WRITER = """
import sys, time
pending = []
with open(sys.argv[1], "a", buffering=1) as file:
    file.write("timestamp,watts\\n")
    while True:
        pending.append(time.time())
        while pending and pending[0] < time.time() - 0.67:
            file.write(f"{pending.pop(0):.3f},80\\n")
        time.sleep(0.02)
"""
BOTH = ("fake,batch_ms=5", "fake,batch_ms=20")
ENERGY = "energy_per_audio_s_gross"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No meter but the log, short windows and short patience; of the rest of a comparison as little as can be."""
    monkeypatch.setattr(passes, "EngineRunner", unmetered_runner)
    monkeypatch.setattr(EngineRounds, "take", skip_round)
    monkeypatch.setattr(meter_log, "MIN_WAIT_S", 2.0)


@contextmanager
def late_meter(path: Path) -> Iterator[None]:
    """A process that writes the log, for as long as the block runs."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        while not path.exists() or path.read_text().count("\n") < 4:
            time.sleep(0.02)
        yield
    finally:
        writer.kill()
        writer.wait()


def measure(save: Path, log: Path, names: Sequence[str] = ("fake,batch_ms=5",), **options: object) -> Record:
    return run(names, save, energy_time_s=0.2, meter_csv=log, **options)


def engines(record: Record) -> list[Result]:
    return [result for result in stopwav.results(record) if result.kind == "engine"]


def test_the_last_window_of_a_late_log_is_waited_for_and_the_log_is_not_needed_again(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    with late_meter(path):
        record = measure(tmp_path, path, BOTH, rounds=2)
    assert record.complete
    for engine in engines(record):
        energy = engine.metrics[ENERGY]
        assert energy.value is not None
        assert energy.n == 2
        assert energy.note.startswith("external meter (CSV, column watts in W), a reading every 0.02")
        assert "meter-log" not in {warning.code for warning in engine.warnings}
    waited = [piece.data["waited_s"] for piece in record.pieces if "waited_s" in piece.data]
    assert len(waited) == 1
    assert 0.3 < waited[0] < 60
    before = command("report", record.path, "--json").stdout
    assert json.loads(before)["card"]["verdicts"][2]["metric"] == ENERGY
    path.unlink()
    assert command("report", record.path, "--json").stdout == before
    path.write_text("timestamp,watts\n1,1\n2,1\n")
    assert command("report", record.path, "--json").stdout == before
    assert measure(tmp_path, path, BOTH, rounds=2, resume=True).path == record.path


def test_readings_that_come_after_the_run_are_taken_in_by_resuming(tmp_path: Path) -> None:
    """A meter whose log is copied from its memory card later: until then the run is not complete and says so."""
    path, begin_s = tmp_path / "meter.csv", time.time()
    record = measure(tmp_path, path)
    assert not record.complete
    (engine,) = engines(record)
    assert engine.metrics[ENERGY].code == "no-meter"
    warnings = {warning.code: warning.message for warning in engine.warnings}
    assert "meter.csv: cannot be read" in warnings["meter-log"]
    assert "--resume" in warnings["incomplete"]
    moments = [begin_s - 1 + index / 50 for index in range(50 * int(time.time() - begin_s + 4))]
    path.write_text("timestamp,watts\n" + "".join(f"{moment},40\n" for moment in moments if moment < time.time()))
    # A report of a run that waits for its readings does not look for them.
    assert engines(Record.read(record.path))[0].metrics[ENERGY].value is None
    resumed = measure(tmp_path, path, resume=True)
    assert (resumed.path, resumed.complete) == (record.path, True)
    (engine,) = engines(resumed)
    assert engine.metrics[ENERGY].value is not None
    lengths = [result for result in stopwav.results(resumed) if result.kind == "length"]
    assert len(lengths) == 1
    assert not {warning.code for warning in engine.warnings} & {"meter-log", "incomplete"}


def test_a_log_that_stops_leaves_what_it_covered(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"

    def stop(task: str, done: int, total: int) -> None:
        if (task, done) == ("energy", 1):
            time.sleep(1.0)  # the readings of the first round are written meanwhile
        elif (task, done) == ("energy", 2):
            path.rename(tmp_path / "elsewhere.csv")

    with late_meter(path):
        record = measure(tmp_path, path, rounds=3, progress=stop)
    assert not record.complete
    (engine,) = engines(record)
    assert engine.metrics[ENERGY].value is not None
    assert engine.metrics[ENERGY].n == 1
    warnings = {warning.code: warning.message for warning in engine.warnings}
    assert "windows are left out: meter log" in warnings["meter-log"]
    assert "incomplete" in warnings


def test_windows_are_long_enough_for_a_slow_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading every 4 s: a window of 12 s holds two at least, wherever it begins."""
    assert energy_series.external_window_s(4.0) == 12.0
    assert energy_series.external_window_s(1.0) == energy_series.EXTERNAL_WINDOW_S == 10.0
    begin_s = time.time() - 100
    (tmp_path / "slow.csv").write_text("timestamp,watts\n" + "".join(f"{begin_s + 4 * at},5\n" for at in range(10)))
    monkeypatch.setattr(energy_pass, "find_meters", lambda: Meters((), (), ()))

    def seconds(**options: object) -> float:
        spec = CompareSpec(engines=["fake"], frames=[100], save=tmp_path, rounds=10, energy_time_s=30, **options)  # type: ignore[arg-type]
        return forecast.forecast(spec).seconds or 0.0

    # In each of 3 rounds: loading 3 s, idling 12, warm-up 3, and three windows of 12 s; 10 s each without a log yet.
    assert seconds(meter_csv=str(tmp_path / "slow.csv")) - seconds() == pytest.approx(3 * (3 + 12 + 3 + 36))
    assert seconds(meter_csv=str(tmp_path / "none.csv")) - seconds() == pytest.approx(3 * (3 + 10 + 3 + 30))


def test_a_board_is_compared_by_its_only_sensor_and_its_sampling_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "EngineRunner", board_runner)
    monkeypatch.setattr(passes, "find_meters", board)
    record = run(["fake,batch_ms=5"], tmp_path, energy=True, energy_time_s=0.2)
    for engine in engines(record):
        assert engine.metrics[ENERGY].note.startswith("ina219 by INA (power sampled every ")
    printed = command("report", record.path, "--all").stdout
    assert "ina219 by INA (power sampled every" in " ".join(printed.split())


def board() -> Meters:
    """A board with a sensor of 5.8 W."""
    return Meters((Meter("INA", (Counter("ina219", None, read_w=lambda: 5.8),), 0.01, sample_s=0.01),), (), ("dram",))


def board_runner(engine: str, device: str) -> engine_runner.EngineRunner:
    """Return the runner of an engine's process on that board."""
    patch = pytest.MonkeyPatch()
    patch.setattr(engine_runner, "find_meters", board)
    for name in ("MIN_WINDOW_S", "IDLE_S"):
        patch.setattr(energy_series, name, 0.1)
    return engine_runner.EngineRunner(engine, device)
