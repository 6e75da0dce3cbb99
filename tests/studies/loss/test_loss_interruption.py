"""A loss run that stopped is resumed, and one that was tampered with is not."""

from pathlib import Path

import pytest
from loss_runs import checked, made_up, run

import stopwav
from stopwav.record import Record
from stopwav.studies.resume import check_pieces

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"first_s"', '"frist_s"', "samples.first_s is missing"),
        ('"values_s":[1.0', '"values_s":["x"', "samples.values_s.0 is 'x'"),
        ('"deviations":{', '"deviation":{', "deviations is missing"),
        ('"samples":{', '"smaples":{', "samples is missing"),
        (
            '"key":["step",0,"torch","b2 v12",2,0]',
            '"key":["step",0,"torch","b2 v12",3,0]',
            "3 is not in the settings of the run",
        ),
        ('"key":["check","torch"]', '"key":["chunk"]', "has no such piece"),
    ],
)
def test_a_run_that_was_tampered_with_is_not_resumed(old: str, new: str, reason: str, tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 1.0, checks={"torch": checked()}, complete=False)
    whole = record.path.read_text()
    record.path.write_text(whole.replace(old, new))
    assert record.path.read_text() != whole
    with pytest.raises(stopwav.StopwavError, match=rf"jsonl:[0-9]+: piece .*{reason}.*without --resume"):
        run(["torch"], tmp_path, batches=3, rounds=3, plan=None, resume=True)


def test_a_run_cut_after_any_piece_can_be_resumed(tmp_path: Path) -> None:
    def time_s(name: str, number: int, index: int) -> float | str:
        return "oom" if (number, index) == (1, 0) else 1.0 + 0.1 * index

    checks = {"torch": checked(), "plain": checked(), "absent": {}}
    lines = made_up(tmp_path, time_s, checks=checks).path.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        (tmp_path / "cut.jsonl").write_text("".join(lines[:count]))
        cut = Record.read(tmp_path / "cut.jsonl")
        assert cut.previous_count == count - 1
        check_pieces(cut)
