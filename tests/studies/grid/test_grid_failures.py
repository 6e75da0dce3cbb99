"""Cells that run out of memory, hang or die are results, and their neighbours are measured."""

import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import engine_file, made_up, run
from test_grid_study import by_place

import stopwav
from stopwav.measure.process import is_out_of_memory, mentions_out_of_memory
from stopwav.studies.frontier import LARGEST_BATCH, Frontier, next_batch
from stopwav.studies.grid.cell import GridCell

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces a limit")

ALL_WAYS_TO_DIE = """\
if (d, B) == (0.1, 2):
    print("about to die", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
if (d, B) == (0.2, 1):
    time.sleep(1000)
if (d, B) == (0.2, 2):
    block = np.ones(10**9, np.uint8)
"""


@linux
def test_every_way_to_die_is_a_result_and_the_sweep_goes_on(tmp_path: Path) -> None:
    engine = engine_file(tmp_path, ALL_WAYS_TO_DIE)
    options = {"durations": [0.1, 0.2], "batch_sizes": [1, 2], "time_limit_s": 4, "memory_limit_gb": 0.6, "rounds": 2}
    record = run(engine, tmp_path, **options)
    cells = by_place(record)
    assert {place: cell.status for place, cell in cells.items()} == {
        (0.1, 1): "ok",
        (0.1, 2): "crashed",
        (0.2, 1): "timeout",
        (0.2, 2): "oom",
    }
    crashed = cells[0.1, 2].warnings[0]
    assert crashed.code == "cell-crashed"
    assert "crashed (SIGSEGV)" in crashed.message
    assert "about to die" in crashed.message
    # What ran out of memory or time is not tried again; what crashed is.
    second = {tuple(piece.key[2:4]): piece.status for piece in record.pieces if piece.key[1] == 1}
    assert second == {("0.1", 1): "ok", ("0.1", 2): "crashed", ("0.2", 1): "skipped", ("0.2", 2): "skipped"}
    printed = command("report", record.path)
    assert printed.code == 1
    for told in ("crashed (SIGSEGV)", "timeout", "OOM", "3 of 4 cells could not be measured"):
        assert told in printed.stdout


@linux
def test_the_frontier_is_found_by_bisection(tmp_path: Path) -> None:
    """100 MB an utterance under 0.75 GB, of which Python with NumPy takes 0.1 to 0.2, by the number of its threads."""
    options = {"durations": [1], "batch_sizes": [2], "memory_limit_gb": 0.75, "frontier": True}
    record = run("fake,mb_per_s=100", tmp_path, **options)
    (found,) = [one for one in stopwav.results(record) if one.params["kind"] == "frontier"]
    fits = found.metrics["largest_batch"].value
    assert fits in (5, 6)
    assert found.params["fails_at"] == fits + 1
    assert "oom" in str(found.params["failure"])
    # The measured cell of 2 is taken for what it is; then 4, 8, and the half between.
    assert [piece.key[2] for piece in record.pieces if piece.key[0] == "frontier"] == [4, 8, 6, 7 if fits == 6 else 5]
    assert f"1 s: {fits:.0f} ({fits + 1:.0f}: OOM)" in command("report", record.path).stdout


@pytest.mark.parametrize("truth", [0, 1, 2, 3, 7, 8, 100, LARGEST_BATCH, 10**6])
def test_the_search_for_the_frontier_ends_at_the_truth(truth: int) -> None:
    frontier = Frontier(0)
    tries = 0
    while (size := next_batch(frontier)) is not None:
        tries += 1
        frontier = Frontier(size, frontier.fails_at) if size <= truth else Frontier(frontier.fits, size)
    assert frontier.fits == min(truth, LARGEST_BATCH)
    assert frontier.fails_at == (truth + 1 if truth < LARGEST_BATCH else None)
    assert tries <= 26


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1000 bytes"), True),
        (RuntimeError("std::bad_alloc"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ImportError("libtorch.so: failed to map segment from shared object"), True),
        (RuntimeError("shapes do not match"), False),
        (stopwav.StopwavError("out of memory, says the user"), False),
        (ValueError("not enough memory cells"), False),
    ],
)
def test_what_says_that_memory_ran_out(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_an_uncaught_bad_alloc_is_out_of_memory(tmp_path: Path) -> None:
    assert mentions_out_of_memory("terminate called after throwing an instance of 'std::bad_alloc'")
    body = "sys.stderr.write(\"terminate called after throwing an instance of 'std::bad_alloc'\")\nsys.stderr.flush()\n"
    engine = engine_file(tmp_path, f"{body}os.abort()")
    (cell,) = by_place(run(engine, tmp_path, durations=[1], batch_sizes=[1])).values()
    assert cell.status == "oom"


@linux
def test_a_torch_tensor_beyond_the_limit_is_out_of_memory(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    engine = engine_file(tmp_path, "import torch\nblock = torch.ones(10**9)")
    (cell,) = by_place(run(engine, tmp_path, durations=[1], batch_sizes=[1], memory_limit_gb=2)).values()
    assert cell.status == "oom"
    assert "RuntimeError" in cell.warnings[0].message


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    record = run(engine_file(tmp_path, "raise ValueError('no')"), tmp_path, durations=[1], batch_sizes=[1])
    printed = command("report", record.path)
    assert printed.code == 2
    assert "Nothing was measured" in printed.stdout


def test_a_cell_that_begins_with_an_error_is_not_tried_again(tmp_path: Path) -> None:
    """A model that is not there would be looked for in every round, for nothing."""
    counted = tmp_path / "calls"
    count = f"open({str(counted)!r}, 'a').write('x')"
    record = run(
        engine_file(tmp_path, f"{count}; raise ValueError('no')"), tmp_path, rounds=3, durations=[1], batch_sizes=[1]
    )
    assert [piece.status for piece in record.pieces] == ["error", "skipped", "skipped"]
    assert counted.read_text() == "x"
    assert "not tried again after round 0: ValueError: no" in record.pieces[1].message
    (cell,) = by_place(record).values()
    assert cell.status == "error"


def test_a_frontier_without_a_single_utterance_is_nothing_measured(tmp_path: Path) -> None:
    engine = engine_file(tmp_path, "raise ValueError('no')")
    record = run(engine, tmp_path, durations=[1], batch_sizes=[1], frontier=True)
    printed = command("report", record.path)
    assert printed.code == 2
    assert "1 s: 0 (1 ended with error: ValueError: no" in printed.stdout


def test_a_search_that_was_interrupted_says_so(tmp_path: Path) -> None:
    def time_s(cell: GridCell, index: int) -> float | str:
        return "oom" if cell.batch_size == 8 else 1.0

    options: dict[str, Any] = {"durations": [1], "frontier": True, "complete": False}
    record = made_up(tmp_path, time_s, batch_sizes=[2, 8], **options)
    found = stopwav.results(record)[-1]
    assert (found.status, found.metrics["largest_batch"].value) == ("skipped", 2)
    printed = command("report", record.path)
    assert "1 s: 2 (at least: the search is not finished)" in printed.stdout
    assert printed.code == 1


@pytest.mark.parametrize(("failing", "code"), [(None, 0), (1, 1)])
def test_a_round_that_crashed_is_in_the_exit_code(tmp_path: Path, failing: int | None, code: int) -> None:
    record = made_up(tmp_path, lambda _, index: "crashed" if index == failing else 0.1, durations=[1], batch_sizes=[1])
    done = command("report", record.path)
    assert done.code == code
    assert ("Some rounds failed in 1 of 1 measured cells" in done.stdout) == bool(code)


def test_what_is_left_out_on_purpose_is_not_in_the_exit_code(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 0.1, durations=[1, 2], batch_sizes=[1, 2, 4], triangle=True)
    assert command("report", record.path).code == 0
    assert "skipped: left out by --triangle" in command("report", record.path, "--csv").stdout
