"""Estimates from earlier runs: their headers are read, and of a run that matches only its beginning."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from stored_runs import DATA, REAL

from stopwav.piece import Piece
from stopwav.record import Header, Record, now, read_first_pieces
from stopwav.studies.forecast import EARLIER_BYTES, earlier_speed, forecast
from stopwav.studies.study import find_study

# More than anybody wants in memory, and nothing on disk: the file is a hole.
HOLE_BYTES = 2_000_000_000


def large(source: Path, target: Path) -> Path:
    """A copy of a run that goes on for gigabytes."""
    with target.open("wb") as file:
        file.write(source.read_bytes())
        file.truncate(HOLE_BYTES)
    return target


def estimate(study: str, folder: Path, **settings: object) -> str:
    """The basis of an estimate; it may take little memory."""
    tracemalloc.start()
    try:
        basis = forecast(find_study(study), find_study(study).spec(save=folder, **{"rounds": 1, **settings})).basis
        assert tracemalloc.get_traced_memory()[1] < 20 * EARLIER_BYTES
    finally:
        tracemalloc.stop()
    return " | ".join(basis)


@pytest.mark.parametrize(
    ("study", "source", "settings"),
    [
        ("latency", REAL, {"engines": ["pocketsphinx"]}),
        ("grid", DATA / "grid-emformer.jsonl", {}),
        ("compare", DATA / "compare-rounds.jsonl", {"rounds": 1}),
    ],
)
def test_of_a_large_run_only_the_beginning_is_read(
    study: str, source: Path, settings: dict[str, object], tmp_path: Path
) -> None:
    header = Record.read(source).header
    names = ("engine", "engines", "device")
    same = {name: header.spec[name] for name in names if header.spec.get(name) is not None} | settings
    large(source, tmp_path / f"{study}-20260101-000000.jsonl")
    assert f"measured in {study}-20260101-000000" in estimate(study, tmp_path, **same)


def test_of_a_large_run_of_another_engine_nothing_is_read(tmp_path: Path) -> None:
    large(REAL, tmp_path / "latency-20260101-000000.jsonl")
    (tmp_path / "latency-no-run.jsonl").touch()
    assert "no earlier run" in estimate("latency", tmp_path, engines=["fake"])


def test_a_file_without_lines_is_no_run(tmp_path: Path) -> None:
    with (tmp_path / "latency-hole.jsonl").open("wb") as file:
        file.truncate(50_000_000)
    assert "no earlier run" in estimate("latency", tmp_path, engines=["fake"])


def test_an_earlier_run_that_cannot_be_understood_stops_nothing(tmp_path: Path) -> None:
    header = Header(stopwav="0.1.0", study="compare", started=now(), spec={"engines": ["fake"]})
    with Record.create(tmp_path / "compare-1.jsonl", header) as record:
        record.append(Piece(key=["sample", 0, "fake", 0], status="ok", data={"unheard": "of"}))
    assert "cannot be read (KeyError" in estimate("compare", tmp_path, engines=["fake", "other"], rounds=1)


def test_the_first_pieces_are_those_that_fit_whole(tmp_path: Path) -> None:
    header = Header(stopwav="0.1.0", study="grid", started=now(), spec={})
    with Record.create(tmp_path / "grid-1.jsonl", header) as record:
        for number in range(10):
            record.append(Piece(key=["cell", number], status="ok", message="x" * 900))
        record.finish()
    start = read_first_pieces(record.path, 2500)
    assert [piece.key[1] for piece in start.pieces] == [0, 1]
    assert not start.complete
    assert len(read_first_pieces(record.path, 10**6).pieces) == 10


@pytest.mark.parametrize(
    ("source", "engine"),
    [(REAL, "pocketsphinx"), (DATA / "grid-emformer.jsonl", ""), (DATA / "compare-rounds.jsonl", "")],
)
def test_a_run_of_any_study_tells_how_fast_an_engine_is(source: Path, engine: str, tmp_path: Path) -> None:
    header = Record.read(source).header
    name = engine or header.spec.get("engine") or header.spec["engines"][0]
    (tmp_path / f"{header.study}-1.jsonl").write_bytes(source.read_bytes())
    speed = earlier_speed(name, tmp_path)
    assert speed is not None
    assert speed.rtf > 0
    assert speed.load_s > 0
    assert speed.run == f"{header.study}-1.jsonl (stopwav {header.study})"
    assert earlier_speed(f"{name}2", tmp_path) is None


def test_a_run_of_the_same_study_comes_before_newer_ones_of_others(tmp_path: Path) -> None:
    """Whole batches and streams of one engine differ in speed."""
    (tmp_path / "latency-1.jsonl").write_bytes(REAL.read_bytes())
    header, _, pieces = (DATA / "grid-emformer.jsonl").read_text().partition("\n")
    fields = json.loads(header)
    fields["spec"] |= {"engine": "pocketsphinx", "device": None}
    (tmp_path / "grid-1.jsonl").write_text(json.dumps(fields) + "\n" + pieces)
    os.utime(tmp_path / "latency-1.jsonl", (1e9, 1e9))
    newest = earlier_speed("pocketsphinx", tmp_path)
    assert newest is not None
    assert newest.run == "grid-1.jsonl (stopwav grid)"
    streamed = earlier_speed("pocketsphinx", tmp_path, "latency")
    assert streamed is not None
    assert streamed.run == "latency-1.jsonl (stopwav latency)"
    assert streamed.rtf != newest.rtf
    # A study that never measured the engine rests on those that did.
    assert "measured in grid-1.jsonl" in estimate("compare", tmp_path, engines=["pocketsphinx"], rounds=1)
