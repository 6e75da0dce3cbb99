"""A step run that stopped is gone on with, and one that was tampered with is not."""

from pathlib import Path

import pytest
from step_jobs import TINY, rows_of

import stopwav
from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.resume import check_pieces


def test_the_fused_loss_and_resuming(few_shapes: Path, tmp_path: Path) -> None:
    options = {"shapes": str(few_shapes), "batch_size": 2, "steps": 1, "rounds": 1, "save": tmp_path}
    record = stopwav.step(f"{TINY},loss=fused", **options)
    found = stopwav.results(record)
    assert found[0].status == "ok", found[0].warnings
    assert "(loss):rnnt_loss_fused" in rows_of(found)
    again = stopwav.step(f"{TINY},loss=fused", **options, resume=True)
    assert again.path == record.path
    assert again.previous_count == len(record.pieces)


def test_a_run_cut_after_any_piece_can_be_gone_on_with(few_shapes: Path, tmp_path: Path) -> None:
    options = {"shapes": str(few_shapes), "batch_size": 2, "steps": 2, "rounds": 1, "save": tmp_path}
    first = stopwav.step(TINY, **options)
    lines = first.path.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        (tmp_path / "cut.jsonl").write_text("".join(lines[:count]))
        check_pieces(Record.read(tmp_path / "cut.jsonl"))
    first.path.write_text("".join(lines[:3]))
    record = stopwav.step(TINY, **options, resume=True)
    assert record.path == first.path
    assert record.complete
    assert [piece.key for piece in record.pieces] == [["ready", 0], ["step", 0, 0], ["step", 0, 1], ["memory", 0]]
    assert record.previous_count == 2


def test_a_run_that_was_tampered_with_is_not_gone_on_with(few_shapes: Path, tmp_path: Path) -> None:
    options = {"shapes": str(few_shapes), "batch_size": 2, "steps": 1, "rounds": 1, "save": tmp_path}
    path = stopwav.step(TINY, **options).path
    path.write_text("".join(path.read_text().replace('"watched"', '"wached"').splitlines(keepends=True)[:-1]))
    with pytest.raises(StopwavError, match=r"has pieces .*KeyError: 'watched'.*without --resume"):
        stopwav.step(TINY, **options, resume=True)
