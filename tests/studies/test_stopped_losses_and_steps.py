"""Runs of losses and steps with a budget, stopped at random moments: what is there is an answer, and is resumed."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import command

from stopwav.record import Record

TINY = "conformer-transducer,layers=1,width=16,heads=2,feed_forward=24,kernel=3,symbols=20"
SHAPES = "T,U\n" + "10,3\n12,4\n8,2\n20,5\n18,4\n40,9\n6,1\n15,3\n" * 5
BUDGET_S = 20
COMMANDS = {
    "loss": ["loss", "torch", "fused", "--batch-size", "2", "--batches", "2", "--vocab", "12", "--dim", "8"],
    "step": ["step", TINY, "--batch-size", "2", "--steps", "2"],
}


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("study", COMMANDS)
def test_a_run_stopped_at_any_moment_is_valid_and_resumed(
    study: str, seed: int, number: signal.Signals, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "shapes.csv").write_text(SHAPES)
    asked = [*COMMANDS[study], "--shapes", str(tmp_path / "shapes.csv"), "--save", str(tmp_path), "--no-html"]
    asked += ["--budget", f"{BUDGET_S}s"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stopwav", *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        process.wait(random.Random(f"{study} {seed}").uniform(0.5, 1.2 * BUDGET_S))
    except subprocess.TimeoutExpired:
        # As a terminal does: Ctrl-C goes to every process of the command.
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    for path in [path for path in tmp_path.glob(f"{study}-*.jsonl") if path.read_bytes().count(b"\n")]:
        shown = command("report", path)
        assert shown.code in (0, 1, 2), shown.stderr
        assert "Traceback" not in shown.stderr
        results = json.loads(command("report", path, "--json").stdout)["results"]
        for result in results:
            rank = result["metrics"].get("rank", {}).get("value")
            assert rank is None or result["params"]["rounds"] >= 3
        if not any(key[0] == "step" for key in Record.read(path).keys):
            assert "the fastest" not in shown.stdout
    resumed = command(*asked, "--resume")
    newest = Record.read(max(tmp_path.glob(f"{study}-*.jsonl"), key=lambda path: path.stat().st_mtime))
    assert newest.complete
    # On a busy machine nothing may load within the time that so small a budget has for it, which is a result.
    too_slow = any(piece.status == "timeout" for piece in newest.pieces)
    assert resumed.code in ((0, 1, 2) if too_slow else (0, 1)), resumed.stderr
