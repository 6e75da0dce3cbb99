"""Runs that are killed by force, again and again, and resumed until they are whole."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from stopwav.record import Record


def kill_and_resume(script: str, folder: Path, *arguments: object, kills: int, most: int, seed: int = 0) -> Record:
    """The last of as many runs as it takes to kill `kills` processes at random moments, each followed by a resumption.

    The script is given the folder to save in, and the arguments. Half of the kills come as it starts; the others once
    there are so many pieces more than before, up to `most`: by its progress, so that a slow machine gets as far as a
    quick one. Each time all pieces of before are there, and none twice.
    """
    moments = random.Random(seed)
    killed = number = 0
    kept: list[object] = []
    while True:
        save = folder / f"runs-{number}"
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(save), *map(str, arguments)], stderr=subprocess.PIPE
        )
        if killed < kills:
            starting = moments.random() < 0.5
            if not starting:
                _wait_for(process, save, len(kept) + moments.randint(1, most))
            time.sleep(moments.uniform(0, 0.5 if starting else 0.02))
            process.kill()  # may come as it ends by itself: its exit status says which was first
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        found = [tuple(piece.key) for run in _runs(save) for piece in Record.read(run).pieces]
        assert len(found) == len(set(found))
        assert found[: len(kept)] == kept
        if process.returncode:
            kept, killed = found, killed + 1
        elif killed < kills:
            kept, number = [], number + 1
        else:
            (run,) = _runs(save)
            return Record.read(run)


def _wait_for(process: subprocess.Popen[bytes], save: Path, pieces: int) -> None:
    """Return when the run has that many pieces, or the process has ended."""
    # The first line is the header.
    while process.poll() is None and pieces > sum(run.read_bytes().count(b"\n") - 1 for run in _runs(save)):
        time.sleep(0.002)


def _runs(save: Path) -> list[Path]:
    """The run of a folder; one killed before its header was whole is none, and the next attempt begins afresh."""
    runs = [path for path in save.glob("*.jsonl") if path.read_bytes().count(b"\n")]
    assert len(runs) <= 1
    return runs
