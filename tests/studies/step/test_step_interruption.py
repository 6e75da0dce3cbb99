"""A step run that stopped is resumed, and one that was tampered with is not."""

from pathlib import Path
from typing import Any

import pytest
from step_jobs import TINY, rows_of

import stopwav
from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome
from stopwav.record import Record
from stopwav.studies.resume import check_pieces
from stopwav.studies.step.rounds import measure_round
from stopwav.studies.step.spec import StepSpec

FUSED = f"{TINY},loss=fused"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("steps")
    (folder / "shapes.csv").write_text("T,U\n8,2\n9,2\n10,2\n11,2\n")
    return {"shapes": str(folder / "shapes.csv"), "batch_size": 2, "steps": 2, "rounds": 1, "save": folder}


@pytest.fixture(scope="module")
def lines(options: dict[str, Any]) -> list[str]:
    """The lines of a run of the fused loss that went well."""
    record = stopwav.step(FUSED, **options)
    results = stopwav.results(record)
    assert results[0].status == "ok", results[0].warnings
    assert "(loss):rnnt_loss_fused" in rows_of(results)
    return record.path.read_text().splitlines(keepends=True)


def saved(options: dict[str, Any], lines: list[str], folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write a run file of these lines; return it and the options that resume it."""
    path = folder / "step-20260101-000000.jsonl"
    path.write_text("".join(lines))
    return path, {**options, "save": folder, "resume": True}


def test_a_finished_run_is_not_measured_again(options: dict[str, Any], lines: list[str], tmp_path: Path) -> None:
    path, resumed = saved(options, lines, tmp_path)
    record = stopwav.step(FUSED, **resumed)
    assert record.path == path
    assert record.previous_count == len(record.pieces) == 4
    assert path.read_text() == "".join(lines)


def test_a_run_cut_after_any_piece_can_be_resumed(options: dict[str, Any], lines: list[str], tmp_path: Path) -> None:
    for count in range(1, len(lines)):
        (tmp_path / "cut.jsonl").write_text("".join(lines[:count]))
        check_pieces(Record.read(tmp_path / "cut.jsonl"))
    path, resumed = saved(options, lines[:3], tmp_path)
    record = stopwav.step(FUSED, **resumed)
    assert record.path == path
    assert record.complete
    assert [piece.key for piece in record.pieces] == [["ready", 0], ["step", 0, 0], ["step", 0, 1], ["memory", 0]]
    assert record.previous_count == 2


class Dying:
    """A process that dies as it warms up; it counts how often it was asked to."""

    asked = 0

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        self.asked += 1
        return Outcome("crashed", message="the model did not load: crashed (SIGSEGV)")


@pytest.mark.parametrize(
    ("kept", "failed"), [(1, ["ready", 0]), (2, ["step", 0, 0]), (3, ["step", 0, 1]), (4, ["memory", 0])]
)
def test_what_a_resumed_round_lacks_is_not_lost_where_its_process_dies(
    kept: int, failed: list[object], options: dict[str, Any], lines: list[str], tmp_path: Path
) -> None:
    path, resumed = saved(options, lines[:kept], tmp_path)
    spec = StepSpec(model=FUSED, **resumed)
    process = Dying()
    with Record.resume(path) as record:
        measure_round(spec, record, 0, process)
        assert [piece.key for piece in record.pieces if piece.status == "crashed"] == [failed]
        assert len(record.pieces) == kept
    # The failure is a result, which is not measured again.
    with Record.resume(path) as record:
        measure_round(spec, record, 0, process)
        assert len(record.pieces) == kept
    assert process.asked == 1


def test_a_run_that_was_tampered_with_is_not_resumed(options: dict[str, Any], lines: list[str], tmp_path: Path) -> None:
    tampered = [line.replace('"watched"', '"wached"') for line in lines[:-1]]
    _, resumed = saved(options, tampered, tmp_path)
    with pytest.raises(StopwavError, match=r"watched is missing; .*without --resume"):
        stopwav.step(FUSED, **resumed)
