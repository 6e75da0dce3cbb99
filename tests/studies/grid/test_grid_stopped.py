"""A grid by budget, stopped by Ctrl-C or by force at any moment: a valid answer, or a run that can be resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import command

from stopwav.record import Record

BUDGET_S = 4.0
GRID = ["grid", "fake,second_ms=30", "--durations", "0.2,0.5,1", "--batch-sizes", "1,2", "--no-html"]


def stop(folder: Path, number: signal.Signals, pieces: int, delay_s: float) -> str:
    """Send a signal to a grid after so many pieces and a delay, and return what it printed as its error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stopwav", *GRID, "--budget", f"{BUDGET_S:g}s", "--save", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
        text=True,
    )
    # The first line is the header. By progress: a slow machine gets as far as a quick one.
    while pieces and process.poll() is None and count_lines(folder) <= pieces:
        time.sleep(0.01)
    time.sleep(delay_s)
    process.send_signal(number)
    return process.communicate(timeout=60)[1]


def count_lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def check_answer(folder: Path, errors: str) -> None:
    """The run that was stopped, if there is one, has a valid answer; and the same command resumes it."""
    assert "Traceback" not in errors, errors
    runs = [path for path in folder.glob("*.jsonl") if b"\n" in path.read_bytes()]
    for path in runs:
        shown = command("report", path)
        assert shown.code in (0, 1, 2)
        assert "Traceback" not in shown.stdout + shown.stderr
        if Record.read(path).complete:
            continue
        rounds = {key[1] for key in Record.read(path).keys if key[0] == "cell"}
        if len(rounds) < 3:
            assert "Faster than real time" not in shown.stdout, "one or two processes decide nothing"
        done = command(*GRID, "--budget", f"{BUDGET_S + 2:g}s", "--save", folder, "--resume")
        assert done.code == 0, done.stderr
        assert Record.read(path).complete
        keys = Record.read(path).keys
        assert len(keys) == len(set(keys))
        assert {key[2:4] for key in keys if key[0] == "cell"} | {key[1:3] for key in keys if key[0] == "left-out"} == {
            (duration, size) for duration in ("0.2", "0.5", "1") for size in (1, 2)
        }


@pytest.mark.parametrize(
    ("number", "pieces"), [(signal.SIGINT, 3), pytest.param(signal.SIGKILL, 8, marks=pytest.mark.soak)]
)
def test_a_stopped_grid_has_an_answer_and_is_resumed(number: signal.Signals, pieces: int, tmp_path: Path) -> None:
    errors = stop(tmp_path, number, pieces, 0.05)
    assert count_lines(tmp_path) > pieces
    check_answer(tmp_path, errors)


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_grid_stopped_at_twenty_moments_has_an_answer_each_time(number: signal.Signals, tmp_path: Path) -> None:
    random_ = random.Random(f"{number}")
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        check_answer(folder, stop(folder, number, random_.randrange(20), random_.uniform(0, 1.0)))
