"""Runs that were edited, or stopped early: refused with the line by every verb, and never passed by a gate."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from stored_runs import changed
from synthetic_runs import saved, synthetic_run

import stopwav
from stopwav.record import Record

DATA = Path(__file__).parent / "data"
Lines = list[dict[str, Any]]


def piece(kind: str, number: int = 0) -> Callable[[Lines], dict[str, Any]]:
    """The data of the first piece of a kind that completed, or of a later one."""

    def find(lines: Lines) -> dict[str, Any]:
        return [line for line in lines[1:-1] if line["key"][0] == kind and line["status"] == "ok"][number]

    return find


def put(kind: str, path: str, value: object) -> Callable[[Lines], None]:
    """An edit that sets a value in the data of a piece, or in its key."""

    def edit(lines: Lines) -> None:
        *holders, last = path.split(".")
        holder: Any = lines[0] if kind == "header" else piece(kind)(lines)
        for name in holders:
            holder = holder[int(name) if isinstance(holder, list) else name]
        holder[int(last) if isinstance(holder, list) else last] = value

    return edit


# Each with a part of what is said of it.
EDITS = [
    ("grid-failures", put("cell", "data.load_s", -1), "load_s is -1"),
    ("grid-failures", put("cell", "data.samples.values_s.0", -0.1), "samples.values_s.0 is -0.1"),
    ("grid-failures", put("cell", "data.samples.values_s.0", float("nan")), "samples.values_s.0 is nan"),
    ("grid-failures", put("cell", "data.samples.values_s", []), "samples.values_s is []"),
    ("grid-failures", put("cell", "data.samples.stages_s", [{}]), "stages_s has 1 values"),
    ("grid-failures", put("cell", "data.memory.peak_bytes", "much"), "memory.peak_bytes is 'much'"),
    ("grid-failures", put("cell", "data.engine.notes", 3), "engine.notes is 3"),
    ("grid-failures", put("cell", "key.2", "0.7"), "'0.7' is not in the settings"),
    ("grid-failures", put("cell", "key.1", 2), "2 is not in the settings"),
    ("grid-failures", put("header", "spec.rounds", -1), "rounds is -1"),
    ("compare-rounds", put("sample", "data.seconds", -1), "seconds is -1"),
    ("compare-rounds", put("sample", "data.id", "nobody"), "id is 'nobody', and input 0 of the run is"),
    ("compare-rounds", put("sample", "key.2", "other"), "'other' is not in the settings"),
    ("compare-rounds", put("sample", "key.3", 99), "99 is not in the settings"),
    ("compare-rounds", put("operations", "data.multiply_adds", -5), "multiply_adds is -5"),
    ("compare-rounds", put("header", "corpus.inputs.0", "nobody"), "inputs has 'nobody'"),
    ("compare-metered", put("energy", "data.windows.0.seconds", 0), "windows.0.seconds is 0"),
    ("compare-metered", put("energy", "data.windows", []), "windows is []"),
    ("loss-settings", put("check", "data.precision", "int3"), "precision is 'int3'"),
    ("loss-settings", put("check", "data.deviations", {"value": 0.0}), "deviations is {'value': 0.0}"),
    ("loss-settings", put("step", "key.2", "other"), "'other' is not in the settings"),
    ("loss-settings", put("step", "key.4", 7), "7 is not in the settings"),
    ("loss-settings", put("header", "corpus.settings.0.batches.0.tokens", [1]), "tokens has 1"),
    ("step-ddp", put("step", "data.clean.wall_s", -1), "clean.wall_s is -1"),
    ("step-ddp", put("step", "data.watched.parts.0.2", None), "watched.parts.0.2 is None"),
    ("step-ddp", put("step", "key.2", 3), "3 is not in the settings"),
    ("step-ddp", put("memory", "data.held", []), "held is []"),
    ("latency-failures", put("load", "data.load_s", -1), "load_s is -1"),
    ("latency-failures", put("memory", "data.peak_bytes", -1), "peak_bytes is -1"),
    ("latency-failures", put("stream", "key.2", "other"), "'other' is not in the settings"),
    ("latency-failures", put("stream", "key.3", "nobody"), "'nobody' is not in the settings"),
    ("latency-failures", put("stream", "key", ["stream", 0]), "its key has 2 parts, expected 4"),
    ("latency-failures", put("stream", "key", ["cell", 0]), "has no such piece"),
    ("latency-failures", put("header", "corpus.utterances.0.words", [["a", 2.0, 1.0]]), "utterances.0.words has"),
    ("latency-failures", put("header", "corpus.utterances.1.id", "u2"), "which stands there twice"),
]


@pytest.mark.parametrize(("stem", "edit", "said"), EDITS, ids=[f"{stem}: {said}" for stem, _, said in EDITS])
def test_a_wrong_value_is_named_with_its_line_by_every_verb(
    stem: str, edit: Callable[[Lines], None], said: str, tmp_path: Path
) -> None:
    run = changed(DATA / f"{stem}.jsonl", tmp_path / "edited.jsonl", edit)
    with pytest.raises(stopwav.StopwavError) as raised:
        stopwav.results(Record.read(run))
    assert said in str(raised.value)
    number = str(raised.value).removeprefix(f"{run}:").partition(":")[0]
    assert number.isdigit()
    original = DATA / f"{stem}.jsonl"
    for arguments in (["report", run], ["diff", original, run], ["gate", run, original], ["history", tmp_path]):
        done = command(*arguments)
        assert done.code == 2
        assert f"edited.jsonl:{number}: " in done.stderr
        assert said in done.stderr


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl")), ids=lambda path: path.stem)
def test_no_planned_piece_can_be_taken_out_of_a_complete_run(path: Path, tmp_path: Path) -> None:
    def of_today(lines: Lines) -> None:
        lines[0]["plan_version"] = 1
        for index in range(2 if path.stem == "latency-failures" else 0):
            never = {"kind": "piece", "key": ["memory", index, "flaky.py:Never"], "status": "skipped"}
            lines.insert(-1, {**never, "message": "no stream of this round completed"})

    lines = changed(path, tmp_path / "today.jsonl", of_today).read_text().splitlines()
    for number, line in enumerate(lines[1:-1], start=1):
        kind = json.loads(line)["key"][0]
        # Restarts are not planned, nor is a try of the largest batch below one that fitted.
        if kind in ("load", "rank", "largest"):
            continue
        run = tmp_path / "edited.jsonl"
        run.write_text("\n".join([*lines[:number], *lines[number + 1 :]]) + "\n")
        with pytest.raises(stopwav.StopwavError, match=rf":{len(lines) - 1}: says that the run is complete, but piece"):
            stopwav.results(Record.read(run))
        # Without its last line it is a run that stopped early.
        run.write_text("\n".join([*lines[:number], *lines[number + 1 : -1]]) + "\n")
        warnings = [warning.code for result in stopwav.results(Record.read(run)) for warning in result.warnings]
        assert "incomplete" in warnings


def test_a_run_of_today_lacks_its_memory_piece_and_one_from_before_does_not() -> None:
    def without_memory(plan_version: int) -> Record:
        run = synthetic_run(1, rounds=2, plan_version=plan_version)
        kept = [piece for piece in run.pieces if piece.key[:2] != ["memory", 1]]
        return Record(run.path, run.header, kept, complete=True)

    assert stopwav.results(without_memory(0))
    with pytest.raises(stopwav.StopwavError, match=r'piece \["memory", 1, "engine"\] is missing'):
        stopwav.results(without_memory(1))


def test_a_gate_passes_no_incomplete_run_unless_it_is_told_to(tmp_path: Path) -> None:
    whole = saved(synthetic_run(1), tmp_path / "whole.jsonl")
    stopped = tmp_path / "stopped.jsonl"
    stopped.write_text("".join(whole.read_text().splitlines(keepends=True)[:-1]))
    for pair in ([whole, stopped], [stopped, whole]):
        done = command("gate", *pair)
        assert (done.code, len(done.stderr.splitlines())) == (2, 1)
        assert f"{stopped}: the run is not complete" in done.stderr
        assert command("gate", *pair, "--allow-incomplete").code == 0
    assert command("gate", "--calibrate", whole, stopped, saved(synthetic_run(2), tmp_path / "other.jsonl")).code == 2
    compared = command("diff", whole, stopped)
    assert compared.code == 0
    assert "b is not complete" in compared.stdout


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder with a run, and everything else that may have the name of one."""
    saved(synthetic_run(1), tmp_path / "latency-a.jsonl")
    os.mkfifo(tmp_path / "latency-pipe.jsonl")
    (tmp_path / "latency-zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "latency-nowhere.jsonl").symlink_to("nowhere")
    (tmp_path / "latency-loop.jsonl").symlink_to("latency-loop.jsonl")
    (tmp_path / "latency-folder.jsonl").mkdir()
    (tmp_path / "latency-empty.jsonl").touch()
    (tmp_path / "latency-locked.jsonl").write_text("{}\n")
    (tmp_path / "latency-locked.jsonl").chmod(0)
    return tmp_path


@pytest.mark.timeout(60)
def test_what_is_no_file_is_a_line_and_is_never_opened(odd_folder: Path) -> None:
    odd = sorted(path for path in odd_folder.iterdir() if path.name != "latency-a.jsonl")
    done = command("history", odd_folder, "--json")
    assert done.code == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 1
    for path in odd:
        assert str(path) in done.stderr
        for arguments in (["report", path], ["gate", odd_folder / "latency-a.jsonl", path], ["diff", path, path]):
            refused = command(*arguments)
            assert (refused.code, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
            assert str(path) in refused.stderr
    assert "it is a pipe; name a run file" in done.stderr


@pytest.mark.timeout(60)
@pytest.mark.parametrize("log", ["latency-pipe.jsonl", "latency-zero.jsonl", "w" * 5000])
def test_a_meter_log_that_an_edited_run_names_is_no_hang(log: str, odd_folder: Path) -> None:
    run = changed(
        DATA / "compare-metered.jsonl",
        odd_folder / "compare.jsonl",
        put("header", "spec.meter_csv", str(odd_folder / log)),
    )
    printed = json.loads(command("report", run, "--json").stdout)
    warnings = {warning["code"]: warning["message"] for warning in printed["results"][0]["warnings"]}
    assert "meter-log" in warnings


@pytest.mark.timeout(60)
def test_a_run_is_resumed_in_a_folder_with_odd_files(odd_folder: Path) -> None:
    from stopwav.run_paths import paths_in

    assert len(paths_in(odd_folder, "latency")) == 3
