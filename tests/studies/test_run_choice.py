"""A folder, or the word `latest`, in the place of a run file: which run is taken, and that it is said."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import command as stopwav
from stored_runs import DATA, changed

from stopwav.errors import StopwavError
from stopwav.studies.run_choice import choose_pair, choose_run

GRID, LOSS = DATA / "grid-emformer.jsonl", DATA / "loss-kinds.jsonl"


def started(day: int, **header: Any) -> Any:
    return lambda lines: lines[0].update(started=f"2026-01-{day:02}T00:00:00Z", **header)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Grids of days 1 to 3, a loss of day 2, a grid of day 4 that is not complete, and files that are no runs."""
    runs = tmp_path / "runs"
    runs.mkdir()
    # Not in the order of their names.
    for day, name in ((1, "z"), (3, "a"), (2, "m")):
        changed(GRID, runs / f"grid-{name}.jsonl", started(day))
    changed(LOSS, runs / "loss-x.jsonl", started(2))
    changed(GRID, runs / "grid-open.jsonl", lambda lines: (started(4)(lines), lines.pop()))
    (runs / "notes.jsonl").write_text("no run\n")
    (runs / "empty.jsonl").write_text("")
    (runs / "dangling.jsonl").symlink_to("nowhere")
    (runs / "folder.jsonl").mkdir()
    return runs


def test_the_newest_complete_run_is_taken_and_the_reason_given(folder: Path) -> None:
    choice = choose_run(folder)
    assert choice.path == folder / "grid-a.jsonl"
    assert choice.reason == f"the newest complete run in {folder}"
    assert choose_run(folder, "loss").path == folder / "loss-x.jsonl"


def test_a_file_stands_for_itself_whatever_it_holds(folder: Path) -> None:
    for name in ("grid-open.jsonl", "notes.jsonl", "gone.jsonl"):
        choice = choose_run(folder / name)
        assert (choice.path, choice.reason) == (folder / name, "")


def test_without_a_complete_run_the_newest_is_taken_and_that_is_said(folder: Path) -> None:
    for path in folder.glob("grid-[azm].jsonl"):
        path.unlink()
    choice = choose_run(folder, "grid")
    assert choice.path == folder / "grid-open.jsonl"
    assert "none of which is complete" in choice.reason


def test_a_folder_without_runs_is_an_error_that_names_it(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(StopwavError, match="holds no run"):
        choose_run(tmp_path)
    with pytest.raises(StopwavError, match="holds no step run"):
        choose_run(folder, "step")


def test_latest_is_of_the_folder_that_runs_are_saved_in(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StopwavError, match="no folder stopwav-runs here"):
        choose_run("latest")
    folder.rename("stopwav-runs")
    assert choose_run("latest").path == Path("stopwav-runs/grid-a.jsonl")
    # A file that somebody called so is that file.
    shutil.copy(LOSS, "latest")
    assert choose_run("latest").path == Path("latest")


def test_two_names_stand_for_runs_of_one_study(folder: Path) -> None:
    assert [choice.path for choice in choose_pair(LOSS, folder)] == [LOSS, folder / "loss-x.jsonl"]
    assert [choice.path for choice in choose_pair(folder, LOSS)] == [folder / "loss-x.jsonl", LOSS]
    with pytest.raises(StopwavError, match=r"both stand for .*grid-a\.jsonl; name an earlier run"):
        choose_pair(folder, folder)


def test_the_verbs_say_which_run_they_took(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = f"stopwav: took {folder / 'grid-a.jsonl'}, the newest complete {{}} in {folder}\n"
    done = stopwav("report", folder, "--json")
    assert done.stderr == taken.format("run")
    assert json.loads(done.stdout)["run"] == str(folder / "grid-a.jsonl")
    done = stopwav("diff", folder / "grid-z.jsonl", folder, "--json")
    assert done.stderr == taken.format("grid run")
    assert json.loads(done.stdout)["b"] == str(folder / "grid-a.jsonl")
    monkeypatch.chdir(tmp_path)
    done = stopwav("report", "latest")
    assert (done.code, done.stderr.count("\n")) == (2, 1)
