"""A loss run that is killed at any moment and resumed holds each piece exactly once."""

from pathlib import Path

import pytest
from killed_runs import kill_and_resume
from loss_runs import own, run, shapes_file

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


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = run(["torch"], tmp_path, batches=1)
    again = run(["torch"], tmp_path, batches=1, resume=True)
    assert again.path == first.path
    assert again.found == 2
