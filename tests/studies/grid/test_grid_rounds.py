"""A round is one process that goes through its cells, and all but the time comes out as with a process for each."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import engine_file, good_round, made_up, run
from test_grid_study import by_place

from stopwav.measure.memory import EXACT, host_peak_method
from stopwav.record import Record
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import measurements
from stopwav.studies.grid.costs import is_near_limit
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.stored_rounds import round_to_piece

TWO: dict[str, Any] = {"durations": [0.1, 0.2], "batch_sizes": [1]}
GRID: dict[str, Any] = {"durations": [0.1, 0.2], "batch_sizes": [1, 2]}


def processes(folder: Path) -> list[str]:
    """The processes that called the engine, each once, in the order of their first calls."""
    return list(dict.fromkeys((folder / "pids").read_text().split()))


def counting(folder: Path, body: str = "") -> str:
    """An engine that writes down the process of each call."""
    return engine_file(folder, f"open({str(folder / 'pids')!r}, 'a').write(f'{{os.getpid()}} ')\n{body}")


def test_a_round_is_one_process(tmp_path: Path) -> None:
    record = run(counting(tmp_path), tmp_path, rounds=2, **GRID)
    assert {cell.status for cell in by_place(record).values()} == {"ok"}
    assert len(processes(tmp_path)) == 2
    opened = [piece.data.get("opened", True) for piece in record.pieces]
    assert opened == [True, False, False, False] * 2


def test_a_cell_that_dies_takes_only_itself(tmp_path: Path) -> None:
    """The process is started again behind it; as it was not the first there, it is tried once more by itself."""
    body = "if (d, B) == (0.2, 1): os.kill(os.getpid(), signal.SIGSEGV)"
    record = run(counting(tmp_path, body), tmp_path, seed=3, **GRID)
    statuses = {place: cell.status for place, cell in by_place(record).items()}
    assert statuses == {(0.1, 1): "ok", (0.1, 2): "ok", (0.2, 1): "crashed", (0.2, 2): "ok"}
    place = [tuple(piece.key[2:4]) for piece in record.pieces].index(("0.2", 1))
    assert 0 < place < 3, "the seed puts it between others"
    assert len(processes(tmp_path)) == 3


def test_a_cell_that_fails_only_behind_others_is_measured_by_itself(tmp_path: Path) -> None:
    body = "seen = Own.__dict__.get('seen') or (d, B)\nOwn.seen = seen\nassert seen == (d, B), 'another shape'"
    record = run(counting(tmp_path, body), tmp_path, **GRID)
    assert {cell.status for cell in by_place(record).values()} == {"ok"}
    assert len(processes(tmp_path)) == 4


def test_first_calls_are_of_processes_that_began_with_the_cell(tmp_path: Path) -> None:
    """The first call of each process takes 50 ms longer; with three rounds every cell has a process of its own."""
    body = "time.sleep(0 if 'warm' in Own.__dict__ else 0.05)\nOwn.warm = True"
    one = by_place(run(engine_file(tmp_path, body), tmp_path / "one", **TWO))
    known = [cell for cell in one.values() if cell.metrics["first_call_time"].value is not None]
    assert len(known) == 1
    absent = next(cell for cell in one.values() if cell not in known).metrics["first_call_time"]
    assert "no process began with this cell" in absent.note
    record = run(engine_file(tmp_path, body), tmp_path / "three", rounds=3, **TWO)
    for cell in by_place(record).values():
        assert cell.metrics["first_call_time"].value > 0.05  # type: ignore[operator]
        assert cell.metrics["batch_time"].value < 0.05  # type: ignore[operator]
        assert cell.params["rounds"] == 3
    assert record.complete


ARENA = """\
size = int(d * B * 4e8)
if size > len(Own.__dict__.get('arena', ())):
    Own.arena = np.ones(size, np.uint8)
"""


@pytest.mark.skipif(host_peak_method() != EXACT, reason="the peak mark cannot be reset on this machine")
def test_peaks_of_an_engine_that_keeps_its_memory_are_those_of_a_process_per_cell(tmp_path: Path) -> None:
    """Its arena never shrinks: a small cell behind a large one has a bound, and by itself its own peak."""
    engine = engine_file(tmp_path, ARENA)
    alone = {
        (d, size): by_place(run(engine, tmp_path / f"{d}-{size}", durations=[d], batch_sizes=[size]))[d, size]
        for d in TWO["durations"]
        for size in TWO["batch_sizes"]
    }
    shared = by_place(run(engine, tmp_path / "three", rounds=3, **TWO))
    for place, cell in shared.items():
        for metric in ("peak_host_bytes", "peak_host_over_baseline_bytes"):
            assert cell.metrics[metric].value == pytest.approx(alone[place].metrics[metric].value, rel=0.03), place
            assert cell.metrics[metric].code != "upper-bound"


def test_a_peak_behind_larger_cells_is_a_bound(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda cell, index: 1.0, durations=[1], batch_sizes=[1], rounds=1, complete=False)
    lines = record.path.read_text().splitlines()
    behind = round_to_piece(("cell", 0, "1", 1, 0), good_round(0, GridCell(1, 1), 1.0)).to_json()
    behind["data"] |= {"opened": False, "leftover_bytes": 30_000_000}
    record.path.write_text("\n".join([lines[0], json.dumps(behind)]) + "\n")
    (cell,) = by_place(Record.read(record.path)).values()
    peak = cell.metrics["peak_host_bytes"]
    assert (peak.value, peak.code) == (101_000_000, "upper-bound")
    assert "earlier cells of the process left 30 MB" in peak.note
    assert "≤ 101 MB" in command("report", record.path, "--all").stdout


def test_a_cell_near_the_memory_limit_has_a_process_of_its_own(tmp_path: Path) -> None:
    """90 MB of model and 11 MB for a second of audio: 4 times that is predicted for 4 times the audio."""
    record = made_up(tmp_path, lambda cell, index: 1.0, durations=[1], batch_sizes=[1], rounds=1, complete=False)

    def near(limit_gb: float, cell: GridCell) -> bool:
        spec = GridSpec(engine="made-up", memory_limit_gb=limit_gb)
        return is_near_limit(spec, {}, dict(measurements(record)), cell)

    assert not near(1.0, GridCell(1, 4))
    assert near(0.25, GridCell(1, 4))  # 90 + 44 MB of 250
    assert not near(0.25, GridCell(1, 1))
    assert near(0.5, GridCell(5, 1))  # attention grows with the square of the duration: 90 + 275 MB
    assert not near(0.5, GridCell(1, 5))


def test_a_cell_no_larger_than_one_that_had_room_shares_its_process(tmp_path: Path) -> None:
    """From 1 s × 4 alone, 90 MB of model and 14 MB, 8 s × 1 would be predicted to take 90 + 224 MB."""
    sizes: dict[str, Any] = {"durations": [1, 8], "batch_sizes": [1, 4], "rounds": 1, "complete": False}
    record = made_up(tmp_path, lambda cell, index: 1.0, **sizes)
    spec = GridSpec(engine="made-up", memory_limit_gb=0.5)
    cells = dict(measurements(record))
    short = {GridCell(1, 4): cells[GridCell(1, 4)]}
    assert is_near_limit(spec, {}, short, GridCell(8, 1))
    both = {**short, GridCell(8, 4): cells[GridCell(8, 4)]}  # which took 90 + 42 MB
    assert not is_near_limit(spec, {}, both, GridCell(8, 1))


def test_a_large_cell_opens_its_process(tmp_path: Path) -> None:
    """200 MB and 400 MB under a limit of 0.75 GB."""
    sizes: dict[str, Any] = {"durations": [1, 2], "batch_sizes": [1], "memory_limit_gb": 0.75}
    record = run("fake,mb_per_s=200", tmp_path, seed=0, **sizes)
    assert [piece.key[2] for piece in record.pieces] == ["1", "2"], "the seed puts the larger one behind"
    assert [measured.good[0].opened for _, measured in measurements(record)] == [True, True]
