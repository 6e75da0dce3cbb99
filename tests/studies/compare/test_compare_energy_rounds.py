"""The energy pass of a comparison: one process for an engine and round, and a piece for each length."""

from itertools import groupby
from pathlib import Path

import pytest
from compare_runs import run
from metered import meter_steadily, metered_runner, skip_round

import stopwav
from stopwav.measure.meter import Counter, Meter, Meters, NoMeter
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.compare import energy_pass, passes
from stopwav.studies.compare.engine_rounds import EngineRounds
from stopwav.studies.compare.forecast import forecast
from stopwav.studies.compare.spec import CompareSpec

# Its version is the process it was loaded in; it ends that process at one length.
ENGINE = """
import os
import time
from stopwav import EngineInfo
class Mortal:
    def __init__(self, dies_at_s=0.0):
        self._dies_at_s = dies_at_s
        self.info = EngineInfo(name='mortal', version=str(os.getpid()))
    def transcribe(self, batch):
        if batch[0].duration_s == self._dies_at_s:
            os._exit(7)
        time.sleep(0.002)
        return ['']
"""
SMALL = {"frames": [10, 20, 30], "energy": True, "energy_time_s": 0.1}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine, on a machine with a meter."""
    meter_steadily(monkeypatch)
    monkeypatch.setattr(passes, "EngineRunner", metered_runner)
    # Latency takes processes of its own, and is not of interest here.
    monkeypatch.setattr(EngineRounds, "take", skip_round)
    path = tmp_path / "mortal.py"
    path.write_text(ENGINE)
    return f"{path}:Mortal"


def energies(record: Record) -> list[Piece]:
    return [piece for piece in record.pieces if piece.key[0] == "energy"]


def process_of(piece: Piece) -> str:
    return str(piece.data["engine"]["version"])


def test_a_round_of_an_engine_is_one_process_and_a_new_one_where_it_died(engine: str, tmp_path: Path) -> None:
    mortal = f"{engine},dies_at_s=0.2"
    record = run([engine, mortal], tmp_path, rounds=2, **SMALL)
    pieces = energies(record)
    turns = [(0, engine), (0, mortal), (1, mortal), (1, engine)]
    assert [piece.key for piece in pieces] == [["energy", *turn, frames] for turn in turns for frames in (10, 20, 30)]
    died = [piece for piece in pieces if piece.status != "ok"]
    assert [(piece.key[1:], piece.status) for piece in died] == [
        ([0, mortal, 20], "crashed"),
        ([1, mortal, 20], "crashed"),
    ]
    good = [piece for piece in pieces if piece.status == "ok"]
    processes = [list(group) for _, group in groupby(good, process_of)]
    assert [[piece.key[1:] for piece in group] for group in processes] == [
        [[0, engine, 10], [0, engine, 20], [0, engine, 30]],
        [[0, mortal, 10]],
        [[0, mortal, 30]],
        [[1, mortal, 10]],
        [[1, mortal, 30]],
        [[1, engine, 10], [1, engine, 20], [1, engine, 30]],
    ]
    # Idling is measured once in a process, before its first work.
    for group in processes:
        idle = group[0].data["idle"]
        assert all(piece.data["idle"] == idle for piece in group)
        assert idle["begin_s"] + idle["seconds"] <= group[0].data["windows"][0]["begin_s"] + 0.02
    assert len({group[0].data["idle"]["begin_s"] for group in processes}) == 6
    first, second = (result for result in stopwav.results(record) if result.kind == "engine")
    assert (first.metrics["energy_per_audio_s_gross"].n, second.metrics["energy_per_audio_s_gross"].n) == (2, 2)
    assert first.metrics["energy_per_audio_s_net"].value is not None


def test_a_run_that_stops_between_two_lengths_resumes_with_the_next(engine: str, tmp_path: Path) -> None:
    def stop(task: str, done: int, total: int) -> None:
        if (task, done) == ("energy", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([engine], tmp_path, progress=stop, **SMALL)
    (path,) = tmp_path.glob("*.jsonl")
    before = Record.read(path)
    assert [piece.key[3] for piece in energies(before)] == [10, 20]
    after = run([engine], tmp_path, resume=True, **SMALL)
    assert after.path == path
    assert after.complete
    assert after.pieces[: len(before.pieces)] == before.pieces
    assert [piece.key[3] for piece in energies(after)] == [10, 20, 30]
    assert len({process_of(piece) for piece in energies(after)}) == 2


def test_the_time_of_energy_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At RTF 1, in 3 rounds: load 3 s, idle 2, then warm-up and work at 1 s (3, 20) and at 2 s (6, 20)."""

    def seconds(**options: object) -> float:
        spec = CompareSpec(engines=["fake"], frames=[100, 200], save=tmp_path, rounds=10, **options)  # type: ignore[arg-type]
        return forecast(spec).seconds or 0.0

    monkeypatch.setattr(energy_pass, "find_meters", lambda: Meters((), (NoMeter("none here"),), ()))
    assert seconds(energy=True) == seconds()  # no meter, no energy
    meter = Meter("bench", (Counter("gpu", lambda: 0),), 0.1)
    monkeypatch.setattr(energy_pass, "find_meters", lambda: Meters((meter,), (), ("gpu",)))
    assert seconds(energy=True) - seconds() == pytest.approx(3 * (3 + 2 + 3 + 20 + 6 + 20))
    # A window has 2 s and there are three, however little time is given.
    assert seconds(energy=True, energy_time_s=1.0) - seconds() == pytest.approx(3 * (3 + 2 + 3 + 6 + 6 + 6))
