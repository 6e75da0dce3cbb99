"""A loss run that is killed at any moment and resumed holds each piece exactly once."""

from pathlib import Path

import pytest
from killed_runs import kill_and_resume
from loss_runs import checked, made_up, own, run, shapes_file

import stopwav
from stopwav.record import Record
from stopwav.studies.resume import check_pieces

pytest.importorskip("torch")

SCRIPT = """
import sys
import stopwav
plan = stopwav.Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.001, max_values_s=0.1)
save, shapes, *losses = sys.argv[1:]
small = dict(batch_size=[2], batches=2, vocab=[12], dim=8, rounds=1, plan=plan)
stopwav.loss(losses, shapes=shapes, save=save, resume=True, **small)
"""


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    losses = ["torch", own(tmp_path, "aborting")]
    # No more pieces are waited for than there are before the last.
    record = kill_and_resume(SCRIPT, tmp_path, shapes_file(tmp_path), *losses, kills=4, most=1)
    assert record.complete
    statuses: dict[tuple[object, str], list[str]] = {}
    for piece in record.pieces:
        name = piece.key[1] if piece.key[0] == "check" else piece.key[2]
        statuses.setdefault((piece.key[0], str(name).rpartition(":")[2]), []).append(piece.status)
    assert statuses == {
        ("check", "torch"): ["ok"],
        ("check", "aborting"): ["crashed"],
        ("step", "torch"): ["ok", "ok"],
        ("step", "aborting"): ["crashed", "crashed"],
    }
    # A finished run is not measured again.
    again = run(losses, tmp_path, save=record.path.parent, resume=True)
    assert again.path == record.path
    assert again.previous_count == len(record.pieces) == len(again.pieces)


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
        ('"key":["check","torch"]', '"key":[]', "has no such piece"),
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
