"""Runs whose processes are killed by force, again and again, and resumed until they are complete."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stopwav.record import Record

# Far more than any of these commands takes on a busy machine: one that takes longer hangs.
LIMIT_S = 240.0
# No process of a run outlives the one that started it by more than this.
ORPHAN_S = 2.0
# The processes of a command are found by this variable, which they inherit.
TAG = "STOPWAV_KILLED_RUN"
POLL_S = 0.01


class Killed(NamedTuple):
    """The complete runs that were left of kills, and the number of kills."""

    runs: list[Record]
    kills: int


def kill_and_resume(
    command: Sequence[str], folder: Path, *, kills: int, most: int, seed: int, life_of: type[Life] | None = None
) -> Killed:
    """Kill processes of a command at random moments, `kills` times in all, and resume each run until it is complete.

    Some kills come as the command starts, the others up to `most` pieces later: by its progress, so that a slow machine
    gets as far as a quick one. After each, no process is left, all pieces of before are there, and none twice.
    """
    random_ = random.Random(seed)
    runs: list[Record] = []
    made = 0
    while made < kills or not runs:
        save = folder / f"runs-{len(runs)}"
        kept: list[tuple[str | int, ...]] = []
        complete = False
        while not complete:
            life = (life_of or Life)(command, save)
            while made < kills and life.reaches(random_, most):
                made += life.kill(random_)
            complete = life.end()
            found = [tuple(piece.key) for path in run_files(save) for piece in Record.read(path).pieces]
            assert len(found) == len(set(found)), found
            assert found[: len(kept)] == kept
            kept = found
        (path,) = run_files(save)
        runs.append(Record.read(path))
        assert runs[-1].complete
    return Killed(runs, made)


def run_undisturbed(command: Sequence[str], save: Path, life_of: type[Life] | None = None) -> Record:
    """Return the run of a command that nothing is killed of."""
    life = (life_of or Life)(command, save)
    assert life.end()
    (path,) = run_files(save)
    return Record.read(path)


class Life:
    """One process of the command line, with `--resume`, and the workers that it starts."""

    # What Python runs.
    program: Sequence[str] = ("-m", "stopwav")

    def __init__(self, command: Sequence[str], save: Path) -> None:
        self._save, self._tag = save, uuid.uuid4().hex
        save.mkdir(parents=True, exist_ok=True)
        self._errors = save / f"{self._tag}.txt"
        self._deadline_s = time.monotonic() + LIMIT_S
        self._pieces = self._count_pieces()
        environment = {**os.environ, TAG: self._tag, "OMP_NUM_THREADS": "1"}
        # A file: whoever held the other end of a pipe would be waited for.
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *self.program, *command, "--save", str(save), "--resume", "--no-html"],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
            )

    def reaches(self, random_: random.Random, most: int) -> bool:
        """Wait for a moment to kill at; return whether the command is still there then."""
        if random_.random() < 0.3:
            self._wait(random_.uniform(0, 1.5))
        else:
            self._pieces = self._wait_for_pieces(self._pieces + random_.randint(1, most))
            # As the next piece begins, or in the midst of it.
            self._wait(random_.uniform(0, random_.choice([0.05, 0.5, 2.0])))
        return self._process.poll() is None

    def kill(self, random_: random.Random) -> int:
        """Kill the command, one of its workers, or all of them; return 1 where there was something to kill."""
        workers = [pid for pid in self._processes() if pid != self._process.pid]
        victim = random_.choice(["command", "command", "worker", "worker", "all"])
        if victim == "worker" and workers:
            return _kill(random_.choice(workers), random_.choice([signal.SIGKILL, signal.SIGSEGV]))
        victims = [self._process.pid, *(workers if victim == "all" else [])]
        random_.shuffle(victims)
        killed = [_kill(pid, signal.SIGKILL) for pid in victims]
        self._process.wait()
        return int(any(killed))

    def end(self) -> bool:
        """Wait for the end of the command; return whether it came by itself, with a complete run."""
        self._wait(LIMIT_S)
        code, errors = self._process.poll(), self._errors.read_text(errors="replace")
        survivors = self._survivors()
        for pid in [*survivors, *([self._process.pid] if code is None else [])]:
            _kill(pid, signal.SIGKILL)
        self._process.wait()
        assert code is not None, f"no end within {LIMIT_S:g} s: {errors}"
        assert not survivors, f"alive {ORPHAN_S:g} s after the end of the command: {survivors}"
        assert "Traceback" not in errors, errors
        if code == -signal.SIGKILL:
            return False
        # 1 and 2 say that some or all of what was to be measured failed, as it does where workers are killed.
        assert code in (0, 1, 2), errors
        if code == 2 and "ended the process" in errors:
            return False  # the process that imports the engine's file was killed: an error before anything is measured
        assert [Record.read(path).complete for path in run_files(self._save)] == [True], errors
        return True

    def _survivors(self) -> list[int]:
        deadline_s = time.monotonic() + ORPHAN_S
        while (survivors := self._processes()) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        if survivors and self._process.poll() is not None:
            # A process that is still starting notices as soon as it runs: where the machine is busy, give it as long as
            # another one takes for that.
            subprocess.run([sys.executable, "-c", "import stopwav.measure.process"], check=True)
            survivors = self._processes()
        return [pid for pid in survivors if pid != self._process.pid]

    def _processes(self) -> list[int]:
        """The command and its workers, in no order; those that ended and were not waited for are none."""
        needle = f"{TAG}={self._tag}".encode()
        return [pid for pid, environment in _environments() if needle in environment]

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, min(seconds, self._deadline_s - time.monotonic())))

    def _wait_for_pieces(self, count: int) -> int:
        """Wait until the run has so many pieces, or the command has ended, and return how many it has."""
        while (pieces := self._count_pieces()) < count and time.monotonic() < self._deadline_s:
            if self._process.poll() is not None:
                break
            time.sleep(POLL_S)
        return pieces

    def _count_pieces(self) -> int:
        # The first line is the header.
        return sum(path.read_bytes().count(b"\n") - 1 for path in run_files(self._save))


def run_files(save: Path) -> list[Path]:
    """Return the run of a folder; one killed before its header was whole is none, and the next attempt begins anew."""
    runs = [path for path in save.glob("*.jsonl") if path.read_bytes().count(b"\n")]
    assert len(runs) <= 1
    return runs


def _environments() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                yield int(entry.name), (entry / "environ").read_bytes()


def _kill(pid: int, number: signal.Signals) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return 1
    return 0
