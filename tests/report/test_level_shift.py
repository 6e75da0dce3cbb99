"""Change points of a history: in `--json`, in the chart and in the table, with the runs before and after."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import command as stopwav
from stored_runs import DATA, changed

from stopwav.cli.history import past_run
from stopwav.record import Record
from stopwav.report.level_shift import MOST_RUNS, level_shifts
from stopwav.studies.study import StudyRun, study_names

GRID = DATA / "grid-emformer.jsonl"
CELL = "emformer-rnnt,beam=1 1 s × 1"


def slower(day: int, factor: float, **machine: str) -> Any:
    """A change of a grid run: its day, and all times of its first cell by a factor, the noise of a run included."""
    noise = float(np.random.default_rng(day).normal(1, 0.01))

    def change(lines: list[dict[str, Any]]) -> None:
        lines[0]["started"] = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00Z"
        lines[0]["machine"].update(machine)
        samples = lines[1]["data"]["samples"]
        samples["values_s"] = [value * noise * factor for value in samples["values_s"]]

    return change


def series_of(folder: Path, factors: list[float], first: int = 0, **machine: str) -> list[Path]:
    return [
        changed(GRID, folder / f"grid-{first + day:03}.jsonl", slower(first + day, factor, **machine))
        for day, factor in enumerate(factors)
    ]


def shifts_of(paths: list[Path], metric: str = "rtf") -> list[Any]:
    return level_shifts([past_run(StudyRun(Record.read(path))) for path in paths]).of(metric)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve runs, and eight that are 10 % slower."""
    return series_of(tmp_path_factory.mktemp("runs"), [1.0] * 12 + [1.1] * 8)


def test_a_shift_names_the_runs_before_and_after(paths: list[Path]) -> None:
    (shift,) = shifts_of(paths)
    assert (shift.name, shift.metric, shift.machine) == (CELL, "rtf", "A")
    assert (shift.before.run, shift.after.run) == (paths[11], paths[12])
    assert (shift.before.runs, shift.after.runs) == (12, 8)
    assert shift.change == pytest.approx(0.1, abs=0.015)
    assert shift.after.value / shift.before.value == pytest.approx(1 + shift.change)
    assert shift.p_value <= 0.02


def test_the_json_has_every_shift_and_how_many_series_were_tested(paths: list[Path]) -> None:
    printed = json.loads(stopwav("history", paths[0].parent, "--json").stdout)["change_points"]
    assert set(printed) == {"level", "series", "shifts"}
    assert printed["series"] >= 10
    (shift,) = [shift for shift in printed["shifts"] if shift["metric"] == "rtf"]
    assert set(shift) == {"metric", "name", "machine", "setting", "change", "p", "before", "after"}
    assert shift["machine"] == "02ccf16445e9"
    assert shift["after"]["run"] == str(paths[12])
    assert shift["after"]["started"] == "2026-01-13T00:00:00Z"
    assert {row["name"] for row in printed["shifts"]} == {CELL}
    assert {row["metric"] for row in printed["shifts"]} >= {"rtf", "rtfx", "batch_time"}


def test_the_terminal_and_the_page_show_it(paths: list[Path], tmp_path: Path) -> None:
    for path in paths:
        path.with_suffix(".html").write_text("page")
    page = tmp_path / "history.html"
    done = stopwav("history", paths[0].parent, "--html", page, COLUMNS="160")
    assert done.code == 0, done.stderr
    table = done.stdout[done.stdout.index("Change points") :]
    (row,) = [line for line in table.splitlines() if line.startswith(" real-time factor (RTF)")]
    assert re.search(r"\+(9|10|11)\.\d %", row)
    assert "2026-01-12 00:00" in row
    assert "2026-01-13 00:00" in row
    assert "series were tested, so about" in table
    html = page.read_text()
    specs = json.loads(re.search(r'id="charts">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    marked = {name: spec for name, spec in specs.items() if "change point" in json.dumps(spec)}
    assert marked
    assert len(marked) < len(specs)
    (chart,) = re.findall(r'id="([\w-]+)" role="img" aria-label="real-time factor \(RTF\)"', html)
    spec = marked[chart]
    (rule,) = [row for rows in spec["datasets"].values() for row in rows if "→" in row["text"]]
    assert rule["time"] == "2026-01-12T12:00:00Z"
    assert rule["engine"] == CELL


def test_machines_and_settings_are_series_of_their_own(tmp_path: Path) -> None:
    # The second machine is slower, which is no shift of the first.
    paths = series_of(tmp_path, [1.0] * 10) + series_of(tmp_path, [1.2] * 10, first=10, fingerprint="bbbb")
    assert shifts_of(paths) == []


def test_a_metric_that_is_not_above_zero_has_no_relative_change(paths: list[Path]) -> None:
    (shift,) = shifts_of(paths)
    below = type(shift.before)(shift.before.run, "", 0.0, -0.2, 3)
    assert type(shift)(*(below if name == "before" else value for name, value in vars(shift).items())).change is None


def test_of_a_long_line_the_newest_runs_are_searched(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_RUNS >= 100
    monkeypatch.setattr("stopwav.report.level_shift.MOST_RUNS", 7)
    assert shifts_of(paths) == []


def test_history_takes_a_run_of_every_study(tmp_path: Path) -> None:
    stored = ("latency-real", "grid-emformer", "compare-rounds", "load-levels", "loss-kinds", "step-profile")
    for name in stored:
        changed(DATA / f"{name}.jsonl", tmp_path / f"{name}.jsonl", lambda lines: None)
        (tmp_path / f"{name}.html").write_text("page")
    done = stopwav("history", tmp_path, COLUMNS="240")
    assert done.code == 0
    assert "left out" not in done.stderr
    printed = json.loads(stopwav("history", tmp_path, "--json").stdout)
    assert {run["study"] for run in printed["runs"]} == set(study_names()) - {"counting"}
    # A row each, with a number in it: loss and step by their step time.
    for name in ("pocketsphinx", "emformer-rnnt,beam=1 1 s × 1", "torch", "step"):
        (line,) = [line for line in done.stdout.splitlines() if f" {name} " in line and "2026" in line][:1]
        assert re.search(r"\d", line.partition(name)[2]), line
