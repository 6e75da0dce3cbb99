"""The line about the time of a command: printed before it starts where that is minutes, else nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import command

import stopwav
from stopwav.cli.study_verb import about, forecast_line
from stopwav.measure.meter import Meters, NoMeter
from stopwav.piece import Piece
from stopwav.record import Header, Record, now
from stopwav.studies.compare import energy_pass
from stopwav.studies.compare import study as compare
from stopwav.studies.grid import study as grid


def compare_line(folder: Path, engine: str = "fake", **settings: Any) -> str:
    return forecast_line(compare.STUDY, {"engines": [engine], "save": folder, "rounds": 10, **settings}) or ""


def test_the_time_of_a_grid_by_hand(tmp_path: Path) -> None:
    """At RTF 1: load 3 s, first call 1, warm-up 3, values 10 to 21, memory 1 are 23.5 s, 120 times."""
    settings = {"engines": ["fake"], "durations": [1.0], "batch_sizes": [1], "rounds": 120, "save": tmp_path}
    line = forecast_line(grid.STUDY, settings) or ""
    assert line.startswith("stopwav: estimated 47 min (")
    assert "RTF 1 and 3 s of loading assumed for fake" in line
    assert line.endswith("for less: --budget 5min, not a fixed plan")
    assert "\n" not in line


def test_a_short_run_and_one_that_cannot_start_have_no_line(tmp_path: Path) -> None:
    assert compare_line(tmp_path) != ""
    assert compare_line(tmp_path, rounds=1, frames=[100], samples=2) == ""
    assert compare_line(tmp_path, "no-such-engine") == ""
    assert compare_line(tmp_path, samples=-1) == ""


def test_no_other_file_in_the_folder_stops_a_run(tmp_path: Path) -> None:
    """A run under the name of another study, and one of the right study with unreadable pieces."""
    for name, study in (("compare-0", "grid"), ("compare-1", "compare")):
        header = Header(stopwav="0.1.0", study=study, started=now(), spec={"engine": "fake", "engines": ["fake"]})
        with Record.create(tmp_path / f"{name}.jsonl", header) as record:
            record.append(Piece(key=["sample", 0, "fake", 0], status="ok", data={"unheard": "of"}))
    assert compare_line(tmp_path) == ""


def test_a_meter_log_asks_for_the_time_of_energy(tmp_path: Path) -> None:
    assert "energy for 60 s at each length" in compare_line(tmp_path, meter_csv=tmp_path / "meter.csv")
    assert "energy" not in compare_line(tmp_path)


def test_without_a_meter_no_time_of_energy_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy_pass, "find_meters", lambda: Meters((), (NoMeter("none here"),), ()))
    asked, not_asked = compare_line(tmp_path, energy=True), compare_line(tmp_path)
    assert "no energy: there is no meter" in asked
    assert asked.partition(" (")[0] == not_asked.partition(" (")[0]


@pytest.mark.parametrize(
    ("study", "arguments"), [(compare, ("compare", "fake", "fake")), (grid, ("grid", "fake"))], ids=["compare", "grid"]
)
def test_the_verbs_print_it_unless_they_resume(
    study: Any, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise stopwav.StopwavError("nothing is measured here")

    monkeypatch.setattr(study, "STUDY", replace(study.STUDY, run=refuse))
    printed = command(*arguments, "--save", tmp_path, "--thorough").stderr
    assert printed.index("estimated") < printed.index("nothing is measured here")
    assert "estimated" not in command(*arguments, "--save", tmp_path, "--thorough", "--resume").stderr
    # A budget is no estimate.
    assert "estimated" not in command(*arguments, "--save", tmp_path).stderr


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "time unknown"), (89, "about 89 s"), (2400, "about 40 min"), (9000, "about 2.5 h")]
)
def test_a_time_as_a_person_says_it(seconds: float | None, text: str) -> None:
    assert about(seconds) == text
