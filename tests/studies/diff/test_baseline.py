"""The baseline store: a run is held only against one of its own machine, study and name."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import command as stopwav
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from stored_runs import DATA, HOSTILE, changed
from synthetic_runs import saved, synthetic_run

import stopwav as library
from stopwav.errors import StopwavError
from stopwav.record import Record

LOSS = DATA / "loss-kinds.jsonl"
HERE, THERE = "0123456789ab", "ffffffffffff"


def run_of(folder: Path, name: str, seed: int = 0, *, machine: str = HERE, **planted: Any) -> Path:
    described = {"cpu": "a CPU" if machine == HERE else "another CPU", "fingerprint": machine}
    return saved(synthetic_run(seed, rounds=8, machine=described, **planted), folder / f"{name}.jsonl")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run_of(tmp_path, "base", 1)
    run_of(tmp_path, "same", 2)
    run_of(tmp_path, "slow", 3, slowdown=0.2)
    run_of(tmp_path, "elsewhere", 4, machine=THERE, slowdown=0.2)
    return tmp_path


def test_a_run_is_held_against_the_baseline_of_its_own_machine(runs: Path) -> None:
    assert stopwav("baseline", "save", "base.jsonl").code == 0
    assert stopwav("baseline", "save", "elsewhere.jsonl").code == 0
    assert stopwav("baseline", "compare", "same.jsonl", "--threshold", "5%").code == 0
    slow = stopwav("baseline", "compare", "slow.jsonl", "--threshold", "5%", "--json")
    assert slow.code == 3
    printed = json.loads(slow.stdout)
    assert (printed["outcome"], printed["passed"]) == ("failed", False)
    assert printed["comparison"]["a"] == f"stopwav-baselines/{HERE}/latency/main.jsonl"
    # Just as slow, on the machine that is: it is what that machine gives.
    run_of(runs, "again", 5, machine=THERE, slowdown=0.2)
    assert stopwav("baseline", "compare", "again.jsonl", "--threshold", "5%").code == 0


def test_no_baseline_is_an_outcome_of_its_own(runs: Path) -> None:
    assert stopwav("baseline", "save", "base.jsonl").code == 0
    done = stopwav("baseline", "compare", "elsewhere.jsonl", "--markdown", "out.md")
    assert done.code == 5
    assert done.stderr.count("\n") == 1
    for part in (f"no latency baseline 'main' of this machine, {THERE} (another CPU)", f"{HERE} (a CPU)", "save"):
        assert part in done.stderr
    assert "no baseline" in Path("out.md").read_text()
    printed = json.loads(stopwav("baseline", "compare", "elsewhere.jsonl", "--json").stdout)
    assert (printed["outcome"], printed["passed"], printed["comparison"]) == ("no-baseline", None, None)
    assert [other["machine"] for other in printed["elsewhere"]] == [HERE]
    # Nor is there one where the folder is not there at all, or under another name.
    assert stopwav("baseline", "compare", "same.jsonl", "--folder", "nowhere").code == 5
    assert stopwav("baseline", "compare", "same.jsonl", "--name", "release-1").code == 5


def test_the_functions_of_the_verbs(runs: Path) -> None:
    kept = library.save_baseline("base.jsonl", name="v1.0", folder="store")
    assert kept.path == Path("store", HERE, "latency", "v1.0.jsonl")
    assert kept.path.read_bytes() == Path("base.jsonl").read_bytes()
    assert library.list_baselines("store") == [kept]
    assert library.compare_baseline("same.jsonl", name="v1.0", folder="store", threshold=0.05).passed is True
    missing = library.compare_baseline(Record.read(Path("same.jsonl")), folder="store")
    assert (missing.passed, missing.gate) == (None, None)
    with pytest.raises(StopwavError, match="no such condition"):
        library.compare_baseline("same.jsonl", fail_on=["nothing"], folder="store")


def test_saving_again_replaces_and_studies_stand_side_by_side(runs: Path) -> None:
    for name in ("base", "same"):
        library.save_baseline(f"{name}.jsonl")
    loss = library.save_baseline(LOSS)
    stored = library.list_baselines()
    assert {baseline.study for baseline in stored} == {"latency", "loss"}
    assert len(stored) == 2
    latency = Path("stopwav-baselines", HERE, "latency")
    assert (latency / "main.jsonl").read_bytes() == Path("same.jsonl").read_bytes()
    assert os.listdir(latency) == ["main.jsonl"]
    assert library.compare_baseline(LOSS).gate is not None
    assert loss.machine == json.loads(LOSS.read_text().splitlines()[0])["machine"]["fingerprint"]


def test_the_list_is_a_table_and_json(runs: Path) -> None:
    library.save_baseline("base.jsonl")
    Path("stopwav-baselines", HERE, "latency", "torn.jsonl").write_text("no run")
    done = stopwav("baseline", "list", COLUMNS="200")
    assert done.code == 0
    assert HERE in done.stdout
    assert "a CPU" in done.stdout
    (row,) = json.loads(stopwav("baseline", "list", "--json").stdout)["baselines"]
    assert (row["machine"], row["study"], row["name"]) == (HERE, "latency", "main")
    empty = stopwav("baseline", "list", "--folder", "nowhere")
    assert (empty.code, empty.stderr.count("\n")) == (2, 1)


def test_a_run_that_stopped_early_is_no_baseline_unless_asked_for(runs: Path) -> None:
    changed(Path("base.jsonl"), Path("open.jsonl"), lambda lines: lines.pop())
    with pytest.raises(StopwavError, match="not complete"):
        library.save_baseline("open.jsonl")
    with pytest.raises(StopwavError, match="not complete"):
        library.compare_baseline("open.jsonl")
    assert library.save_baseline("open.jsonl", allow_incomplete=True).path.is_file()


def test_a_folder_stands_for_its_newest_run(runs: Path) -> None:
    Path("runs").mkdir()
    shutil.copy("base.jsonl", "runs")
    done = stopwav("baseline", "save", "runs")
    assert done.code == 0
    assert "took runs/base.jsonl" in done.stderr


def test_a_baseline_moved_to_another_machine_is_refused(runs: Path) -> None:
    kept = library.save_baseline("base.jsonl").path
    moved = kept.parent.parent.with_name(THERE) / "latency" / "main.jsonl"
    moved.parent.mkdir(parents=True)
    kept.rename(moved)
    with pytest.raises(StopwavError, match="other machine"):
        library.compare_baseline("elsewhere.jsonl")


@pytest.mark.parametrize("name", [*HOSTILE, "..", ".", "a/b", "../x", "x\0y", ".hidden", "-rf", "x" * 101])
def test_hostile_names_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(StopwavError) as refused:
        library.save_baseline(LOSS, name=name, folder=tmp_path / "store")
    assert "baseline cannot be kept under the name" in str(refused.value)
    assert not (tmp_path / "store").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(machine=some.text(max_size=12), study=some.sampled_from(["loss", "../loss"]))
def test_an_edited_machine_never_leads_out_of_the_folder(machine: str, study: str, tmp_path: Path) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        lines[0]["machine"]["fingerprint"] = machine
        lines[0]["study"] = study

    run = changed(LOSS, tmp_path / "run.jsonl", edit)
    store = tmp_path / "deep" / "store"
    with suppress(StopwavError):
        assert library.save_baseline(run, folder=store).path.resolve().is_relative_to(store.resolve())
    assert {path.name for path in tmp_path.iterdir()} <= {"deep", "run.jsonl"}


def test_a_folder_that_cannot_be_written_is_an_error(runs: Path) -> None:
    Path("file").write_text("")
    done = stopwav("baseline", "save", "base.jsonl", "--folder", "file")
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "name another folder" in done.stderr
