"""A loss run that is killed at any moment and resumed holds each piece exactly once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loss_runs import own, run, shapes_file

from stopwav.record import Record

pytest.importorskip("torch")

SCRIPT = """
import sys
import stopwav
plan = stopwav.Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.001, max_values_s=0.1)
folder, *losses = sys.argv[1:]
small = dict(batch_size=[2], batches=2, vocab=[12], dim=8, rounds=1, plan=plan)
stopwav.loss(losses, shapes=folder + "/shapes.csv", save=folder, resume=True, **small)
"""


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    shapes_file(tmp_path)
    losses = ["torch", own(tmp_path, "aborting")]
    moments = random.Random(0)
    kills, seen = 0, 0
    for _ in range(50):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), *losses], stderr=subprocess.PIPE)
        try:
            # Five kills spread over the checks and the rounds, longer each time so that some piece gets done.
            _, errors = process.communicate(timeout=moments.uniform(0.5, 2.0) + kills if kills < 5 else 120)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            kills += 1
        else:
            assert process.returncode == 0, errors.decode()
        runs = [path for path in tmp_path.glob("*.jsonl") if path.read_bytes().count(b"\n")]
        if not runs:
            continue
        (path,) = runs
        record = Record.read(path)
        keys = [tuple(piece.key) for piece in record.pieces]
        assert len(keys) == len(set(keys)) >= seen
        seen = len(keys)
        if record.complete:
            break
    assert kills >= 2
    statuses = {}
    for piece in record.pieces:
        name = piece.key[1] if piece.key[0] == "check" else piece.key[2]
        statuses[piece.key[0], str(name).rpartition(":")[2]] = piece.status
    assert statuses == {
        ("check", "torch"): "ok",
        ("check", "aborting"): "crashed",
        ("step", "torch"): "ok",
        ("step", "aborting"): "crashed",
    }
    assert seen == 2 + 2 * 2


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = run(["torch"], tmp_path, batches=1)
    again = run(["torch"], tmp_path, batches=1, resume=True)
    assert again.path == first.path
    assert again.found == 2
