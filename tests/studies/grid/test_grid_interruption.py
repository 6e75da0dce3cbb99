"""A grid that stopped is resumed where it is the same, and only then."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from grid_runs import FAST, good_round, made_up, run

import stopwav
from stopwav import Round
from stopwav.record import Header, Record, now
from stopwav.studies.audio_input import BUNDLED, audio_digest
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cell_place
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.stored_rounds import round_to_piece


def test_a_finished_grid_is_not_run_again(tmp_path: Path) -> None:
    first = run("fake", tmp_path, durations=[0.1], batch_sizes=[1])
    again = run("fake", tmp_path, durations=[0.1], batch_sizes=[1], resume=True)
    assert again.path == first.path
    assert again.previous_count == 1


def test_a_run_on_other_audio_of_the_same_name_is_not_resumed(tmp_path: Path) -> None:
    audio = tmp_path / "a.wav"
    soundfile.write(audio, [0.1] * 1600, 16_000)
    first = run("fake", tmp_path, durations=[0.1], batch_sizes=[1], audio=audio)
    soundfile.write(audio, [0.2] * 1600, 16_000)
    with pytest.raises(stopwav.StopwavError, match=r"cannot resume .*a\.wav has changed since; measure again without"):
        run("fake", tmp_path, durations=[0.1], batch_sizes=[1], audio=audio, resume=True)
    # A run of an older version says nothing of its files but for a digest of all: another has begun.
    lines = first.path.read_text().splitlines()
    header = {key: value for key, value in json.loads(lines[0]).items() if key != "digests"}
    first.path.write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    assert run("fake", tmp_path, durations=[0.1], batch_sizes=[1], audio=audio, resume=True).path != first.path


def started_run(folder: Path, one: Round) -> Path:
    """A grid of one cell that was killed after this round."""
    spec = GridSpec(engine="fake", durations=[1], batch_sizes=[1], rounds=1)
    corpus = {"digest": audio_digest(BUNDLED)}
    header = Header(stopwav="0.1.0", study="grid", started=now(), spec=spec.stored(), corpus=corpus)
    with Record.create(folder / "grid-started.jsonl", header) as record:
        record.append(round_to_piece(cell_place(GridCell(1, 1)).key(0, 0), one))
    return record.path


def test_a_run_killed_before_a_throttled_round_was_repeated_still_owes_the_repetition(tmp_path: Path) -> None:
    path = started_run(tmp_path, replace(good_round(0, GridCell(1, 1), 1.0), throttled=True))
    record = stopwav.grid("fake", durations=[1], batch_sizes=[1], rounds=1, save=tmp_path, resume=True)
    assert record.path == path
    assert [piece.key for piece in record.pieces] == [["cell", 0, "1", 1, 0], ["cell", 0, "1", 1, 1]]
    assert "throttled" in [warning.code for warning in stopwav.results(record)[0].warnings]


def test_a_run_that_was_tampered_with_is_not_resumed(tmp_path: Path) -> None:
    path = started_run(tmp_path, good_round(0, GridCell(1, 1), 1.0))
    path.write_text(path.read_text().replace('"first_s"', '"frist_s"'))
    with pytest.raises(stopwav.StopwavError, match=r"jsonl:2: .*samples.first_s is missing; .*without --resume"):
        stopwav.grid("fake", durations=[1], batch_sizes=[1], rounds=1, save=tmp_path, resume=True)


def test_an_unfinished_grid_says_so(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda cell, index: 1.0, durations=[1], batch_sizes=[1], complete=False)
    (cell, *_) = stopwav.results(record)
    assert "incomplete" in [warning.code for warning in cell.warnings]


def test_a_run_with_a_broken_line_is_named_and_not_begun_anew(tmp_path: Path) -> None:
    path = started_run(tmp_path, good_round(0, GridCell(1, 1), 1.0))
    path.write_text(path.read_text() + "{torn}\n")
    with pytest.raises(stopwav.StopwavError, match=r"grid-started.jsonl:3: not a piece of a run .*remove that line"):
        stopwav.grid("fake", durations=[1], batch_sizes=[1], rounds=1, save=tmp_path, resume=True)
    assert list(tmp_path.glob("*.jsonl")) == [path]


@pytest.mark.parametrize(("key", "other"), [("cpu", "another"), ("threads", {"OMP_NUM_THREADS": "64"})])
def test_a_run_of_another_machine_is_not_resumed(key: str, other: object, tmp_path: Path) -> None:
    options: dict[str, Any] = {"durations": [1], "batch_sizes": [1], "rounds": 2, "plan": FAST, "save": tmp_path}
    record = stopwav.grid("fake", **options)
    header, *pieces = record.path.read_text().splitlines()
    changed = json.loads(header)
    changed["machine"][key] = other
    started_there = "".join(f"{line}\n" for line in (json.dumps(changed), pieces[0]))
    record.path.write_text(started_there)
    with pytest.raises(stopwav.StopwavError, match=f"it was started with another {key}"):
        stopwav.grid("fake", resume=True, **options)
    assert record.path.read_text() == started_there
    # As it was, it is resumed.
    record.path.write_text(f"{header}\n{pieces[0]}\n")
    assert stopwav.grid("fake", resume=True, **options).path == record.path


def test_an_engine_that_changed_between_rounds_is_a_warning(tmp_path: Path) -> None:
    options: dict[str, Any] = {"durations": [1], "batch_sizes": [1], "rounds": 2, "plan": FAST, "save": tmp_path}
    record = stopwav.grid("fake", **options)
    lines = record.path.read_text().splitlines(keepends=True)
    facts = json.loads(lines[2])
    facts["data"]["engine"]["version"] = "later"
    record.path.write_text("".join([*lines[:2], json.dumps(facts), "\n", *lines[3:]]))
    told = {one.code: one.message for one in stopwav.results(Record.read(record.path))[0].warnings}
    assert "'later'" in told["engine-changed"]
