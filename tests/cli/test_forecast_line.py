"""What a command says of its time before it starts: one line where that is minutes, nothing where it is not."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from command_line import command

import stopwav
from stopwav.cli.study_verb import about, with_forecast
from stopwav.record import Header, Piece, Record, now, runs_in
from stopwav.studies.compare.run import run as compare_study
from stopwav.studies.grid.run import run as grid_study


def unmeasured(run: Callable[..., Record]) -> Callable[..., Any]:
    """The function of a study, with its name and arguments, that measures nothing."""

    @wraps(run)
    def measured(*args: object, **kwargs: object) -> str:
        return "the record"

    return measured


def line(capsys: pytest.CaptureFixture[str], run: Callable[..., Record], *args: object, **kwargs: object) -> str:
    assert with_forecast(unmeasured(run))(*args, **kwargs) == "the record"
    return capsys.readouterr().err


def test_the_time_of_a_grid_by_hand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """At the pace of speech: load 3 s, first call 1, warm-up 3, values 10 to 21, memory 1 are 23.5 s, 120 times."""
    told = line(capsys, stopwav.grid, "fake", durations=[1.0], batch_sizes=[1], rounds=120, save=tmp_path)
    assert told.startswith("stopwav: about 47 min at a guess (")
    assert "fake: real-time factor 1 and load 3 s, assumed" in told
    assert told.endswith("for less: --quick, or fewer --rounds, --durations or --batch-sizes\n")
    assert told.count("\n") == 1


def test_what_is_short_goes_on_or_cannot_be_run_says_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def told(engine: str = "fake", **options: Any) -> str:
        return line(capsys, stopwav.compare, [engine], save=tmp_path, **options)

    assert told() != ""
    assert told(rounds=1, frames=[100], samples=2) == ""
    assert told(resume=True) == ""
    assert told("no-such-engine") == ""
    assert told(samples=-1) == ""


def test_no_file_beside_the_run_stops_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A run under the name of another study, and one of the right study whose pieces nobody wrote."""
    for name, study in (("compare-0", "grid"), ("compare-1", "compare")):
        header = Header(stopwav="0.1.0", study=study, started=now(), spec={"engine": "fake", "engines": ["fake"]})
        with Record.create(tmp_path / f"{name}.jsonl", header) as record:
            record.append(Piece(key=["sample", 0, "fake", 0], status="ok", data={"unheard": "of"}))
    assert [run.header.study for run in runs_in(tmp_path, "compare")] == ["compare"]
    assert line(capsys, stopwav.compare, ["fake"], save=tmp_path) == ""


def test_a_meters_log_asks_for_the_time_of_energy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plain = line(capsys, stopwav.compare, ["fake"], save=tmp_path)
    metered = line(capsys, stopwav.compare, ["fake"], save=tmp_path, meter_csv=tmp_path / "meter.csv")
    assert "energy for 60 s at each length" in metered
    assert "energy" not in plain


@pytest.mark.parametrize(
    ("study", "arguments"),
    [(compare_study, ("compare", "fake", "fake")), (grid_study, ("grid", "fake"))],
)
def test_the_verbs_say_it(
    study: Any, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = arguments[0]

    @wraps(getattr(study, name))
    def refused(*args: object, **kwargs: object) -> None:
        raise stopwav.StopwavError("nothing is measured here")

    monkeypatch.setattr(study, name, refused)
    said = command(*arguments, "--save", tmp_path).stderr
    assert said.index("at a guess") < said.index("nothing is measured here")


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, "time unknown"), (89, "about 89 s"), (2400, "about 40 min"), (9000, "about 2.5 h")]
)
def test_a_time_as_a_person_says_it(seconds: float | None, told: str) -> None:
    assert about(seconds) == told
