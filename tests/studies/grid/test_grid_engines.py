"""Several engines in one grid: keys, turns, verdicts by cell, side by side in tables and page, and old files of one."""

import json
import re
from pathlib import Path

import pytest
from command_line import command
from grid_runs import FAST, made_up

import stopwav
from stopwav import StopwavError
from stopwav.record import Record
from stopwav.studies.grid.cell import GridCell, cell_of
from stopwav.studies.grid.cells import drawn_order, measurements, rising_cells, round_order
from stopwav.studies.grid.costs import Costs
from stopwav.studies.grid.real_time import implausible
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.grid.stored_pieces import missing_keys
from stopwav.studies.grid.verdicts import grid_verdicts
from stopwav.studies.study import StudyRun

ENGINES = ["quick=made-up,beam=1", "made-up,beam=8"]


def seconds(cell: GridCell, index: int) -> float | str:
    """The second engine takes twice as long for 1 s and half as long for 2 s; rounds differ by 1 %."""
    if (cell.duration_s, cell.batch_size, cell.lane) == (2, 4, "quick"):
        return "oom"
    factor = 1.0 if cell.lane == "quick" else 2.0 if cell.duration_s == 1 else 0.5
    return factor * 0.1 * cell.audio_s * (1 + 0.01 * index)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return made_up(tmp_path, seconds, rounds=5, engines=ENGINES, durations=[1, 2], batch_sizes=[1, 4])


def test_a_cell_of_several_engines_has_their_name_in_its_key_and_one_of_one_has_not() -> None:
    for cell in (GridCell(0.1, 4), GridCell(2.0, 1, "quick")):
        assert cell_of(cell.key) == cell
    assert GridCell(2.0, 1).key == ("2", 1)
    assert GridCell(2.0, 1, "quick").key == ("quick", "2", 1)


def test_engines_take_turns_one_after_the_other() -> None:
    spec = GridSpec(engines=["a", "b", "c"], durations=[1, 2], batch_sizes=[1])
    lanes = [[cell.lane for cell in round_order(spec, index)] for index in range(2)]
    assert lanes == [["a", "a", "b", "b", "c", "c"], ["c", "c", "b", "b", "a", "a"]]
    # The cells of a round are those of each engine, in an order that is drawn.
    assert {(cell.duration_s, cell.batch_size) for cell in round_order(spec, 0)} == {(1, 1), (2, 1)}
    assert drawn_order([GridCell(1, 1)], [""], 0, 0) == [GridCell(1, 1)]
    assert [cell.lane for cell in rising_cells(spec)] == ["a", "a", "b", "b", "c", "c"]


def test_what_a_call_costs_is_known_of_its_own_engine_alone() -> None:
    costs = Costs({GridCell(1, 1, "a"): 2.0}, {"a": 5.0})
    assert costs.call_s(GridCell(2, 1, "a")) == pytest.approx(4)
    assert costs.call_s(GridCell(2, 1, "b")) is None
    assert costs.load_of(GridCell(1, 1, "a")) == 5.0


def test_an_engine_is_not_implausible_beside_a_slower_one(tmp_path: Path) -> None:
    def ten_times(cell: GridCell, index: int) -> float:
        return cell.audio_s * (0.02 if cell.lane == "quick" else 0.2)

    record = made_up(tmp_path, ten_times, engines=ENGINES, durations=[1, 2, 4, 8], batch_sizes=[1, 4])
    assert implausible(dict(measurements(record))) == []


def test_each_engine_has_its_cells_and_fits_under_its_name(record: Record) -> None:
    results = stopwav.results(record)
    cells = [result for result in results if result.kind == "cell"]
    assert [result.name for result in cells[:2]] == ["quick 1 s × 1", "quick 1 s × 4"]
    assert cells[4].name == "made-up,beam=8 1 s × 1"
    assert (cells[0].params["of"], cells[0].params["setting"]) == ("quick", "made-up,beam=1")
    assert cells[0].metrics["rtf"].value == pytest.approx(0.102, rel=1e-3)
    assert cells[4].metrics["rtf"].value == pytest.approx(0.204, rel=1e-3)
    assert [result.status for result in cells].count("oom") == 1
    assert not list(missing_keys(record))


def test_verdicts_are_cell_by_cell_from_the_rounds_that_both_have(record: Record) -> None:
    verdicts = grid_verdicts(record)
    assert verdicts is not None
    assert (verdicts.base, verdicts.engines) == ("quick", ["made-up,beam=8"])
    found = {(one.duration_s, one.batch_size): (one.rtf.verdict, one.rtf.value) for one in verdicts.verdicts}
    assert found[1, 1] == ("slower", pytest.approx(2))
    assert found[2, 1] == ("faster", pytest.approx(0.5))
    # The first engine ran out of memory there.
    assert found[2, 4][1] is None
    assert all(one.rtf.paired for one in verdicts.verdicts if one.rtf.value is not None)
    # Holm: no interval is of 95 % alone.
    assert max(one.rtf.confidence for one in verdicts.verdicts if one.rtf.value is not None) >= 0.95


def test_the_terminal_begins_with_who_is_faster_where(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = command("report", record.path).stdout
    told = " ".join(printed.split())
    assert "made-up,beam=8 against quick: slower in 2, faster in 1 of 3 cells" in told
    assert "quick: made-up,beam=1" in told
    lines = [line.split() for line in printed.splitlines()]
    assert ["quick"] in lines
    assert ["2", "s", "0.500", "faster", "–"] in lines
    assert max(map(len, printed.splitlines())) <= max(80, len(str(record.path)) + 10)


def test_json_page_markdown_and_charts_have_all_engines(record: Record, tmp_path: Path) -> None:
    told = json.loads(command("report", record.path, "--json").stdout)
    assert told["verdicts"]["base"] == "quick"
    assert len(told["verdicts"]["verdicts"]) == 4
    page = tmp_path / "page.html"
    assert command("report", record.path, "--html", page).stdout == ""
    assert "made-up,beam=8 against quick" in page.read_text()
    assert list(StudyRun(record).charts)[:2] == ["rtfx-1", "memory-host-1"]
    assert "| **quick** |" in command("report", record.path, "--markdown").stdout


def test_engines_are_measured_interleaved_and_resumed(tmp_path: Path) -> None:
    settings = {"durations": [0.1, 0.2], "batch_sizes": [1], "rounds": 2, "plan": FAST, "save": tmp_path}
    record = stopwav.grid(["a=fake,second_ms=1", "fake,second_ms=5"], **settings)  # type: ignore[arg-type]
    assert record.complete
    lanes = [str(piece.key[2]) for piece in record.pieces if piece.key[0] == "cell"]
    assert lanes == ["a", "a", *["fake,second_ms=5"] * 4, "a", "a"]
    lines = record.path.read_text().splitlines()
    record.path.write_text("\n".join(lines[:4]) + "\n")
    resumed = stopwav.grid(["a=fake,second_ms=1", "fake,second_ms=5"], resume=True, **settings)  # type: ignore[arg-type]
    assert resumed.path == record.path
    assert {tuple(key) for key in resumed.keys} == {tuple(key) for key in record.keys}
    # Another label is another run.
    other = stopwav.grid(["b=fake,second_ms=1", "fake,second_ms=5"], resume=True, **settings)  # type: ignore[arg-type]
    assert other.path != record.path


def test_a_budget_is_shared_by_the_engines(tmp_path: Path) -> None:
    slow, quick = "slow=fake,second_ms=900", "quick=fake,second_ms=2"
    record = stopwav.grid([slow, quick], durations=[1, 8], batch_sizes=[1], plan=FAST, budget_s=8, save=tmp_path)
    cells = {str(result.name): result for result in stopwav.results(record) if result.kind == "cell"}
    assert cells["slow 8 s × 1"].status == "skipped"
    assert all(cells[name].status == "ok" for name in ("slow 1 s × 1", "quick 1 s × 1", "quick 8 s × 1"))
    assert command("report", record.path).code == 0


def test_a_run_of_one_engine_by_an_older_version_is_read_and_resumed(tmp_path: Path) -> None:
    settings = {"durations": [0.1], "batch_sizes": [1, 2], "rounds": 1, "plan": FAST, "save": tmp_path}
    record = stopwav.grid("fake", **settings)  # type: ignore[arg-type]
    first, *rest = record.path.read_text().splitlines()
    header = json.loads(first)
    header["spec"] = {"engine": header["spec"].pop("engines")[0], **header["spec"]}
    record.path.write_text("\n".join([json.dumps(header), rest[0]]) + "\n")
    assert stopwav.results(Record.read(record.path))[0].name == "fake 0.1 s × 1"
    resumed = stopwav.grid("fake", resume=True, **settings)  # type: ignore[arg-type]
    assert (resumed.path, resumed.complete) == (record.path, True)


@pytest.mark.parametrize(
    ("engines", "reason"),
    [
        (["m=fake", "m=fake,second_ms=2"], "two engines are called 'm'"),
        (["fake", "fake=emformer-rnnt"], "two engines are called 'fake'"),
        (["=fake", "fake"], "its label is empty"),
        ([], "at least one"),
    ],
)
def test_names_that_do_not_tell_engines_apart_are_refused(engines: list[str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=reason):
        stopwav.grid(engines, save=tmp_path)


def test_the_same_engine_twice_is_numbered() -> None:
    assert GridSpec(engines=["fake", "fake"]).lanes == ["fake", "fake#2"]


def test_the_verb_takes_several_engines(tmp_path: Path) -> None:
    done = command(
        "grid", "x=fake,second_ms=1", "fake,second_ms=4", "--durations", "0.1", "--batch-sizes", "1", "--rounds", "1",
        "--save", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert re.search(r"fake,second_ms=4 against x: ", done.stdout)
