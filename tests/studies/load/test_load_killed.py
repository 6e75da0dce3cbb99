"""Whatever is killed in the middle of a level: the run goes on, nothing is lost or counted twice, nothing is left."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import short_levels
from killed_runs import Life, kill_and_resume, run_undisturbed
from noise_corpus import write_corpus

import stopwav
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.load.schedule import schedule_level
from stopwav.studies.load.target import Target
from stopwav.studies.study import results

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
    pytest.mark.timeout(1800),
]
FOLDER = Path(__file__).parent
SPEAKS = f"{FOLDER / 'load_engines.py'}:Speaks"
STREAMS = [2, 3]
# In `make soak`; and pieces between two kills: a level and what was spent on it are two.
KILLS, MOST = 50, 3


class LoadLife(Life):
    """A command with short levels, of which any of the four kinds of processes is killed."""

    program = (str(FOLDER / "short_levels.py"),)

    def kill(self, random_: random.Random) -> int:
        processes = by_kind(self._process.pid)
        kind = random_.choice(["command", "client", "serve", "worker"])
        victims = processes.get(kind, [])
        if not victims:
            return 0
        random_.choice(victims).kill()
        if kind == "command":
            self._process.wait()
        return 1


def by_kind(command: int) -> dict[str, list[psutil.Process]]:
    """The processes of a command: itself, the clients and the server that it started, and the server's workers."""
    kinds: dict[str, list[psutil.Process]] = {"command": [psutil.Process(command)]}
    for child in psutil.Process(command).children(recursive=True):
        try:
            line, parent = child.cmdline(), child.ppid()
        except psutil.Error:
            continue
        if "serve" in line:
            kinds.setdefault("serve", []).append(child)
        elif "stopwav.measure.process" in " ".join(line):
            kinds.setdefault("client" if parent == command else "worker", []).append(child)
    return kinds


def levels(record: Record) -> list[Piece]:
    return [piece for piece in record.pieces if piece.key[0] == "level"]


def counted(piece: Piece) -> list[tuple[str, float]]:
    """The sessions of a level that count."""
    sessions: Sequence[Any] = piece.read()["sessions"]
    return [(session["utterance"], session["begin_s"]) for session in sessions if session["part"] == "steady"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", count=3, seconds=0.5)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels of a second."""
    for module, name in (
        (short_levels.plan, "THOROUGH_S"),
        (short_levels.plan, "PATIENCE_S"),
        (short_levels.schedule, "SHORTEST_RAMP_S"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    short_levels.shorten()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No process outlives a run."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    deadline_s = time.monotonic() + 5
    while left := [child for child in psutil.Process().children(recursive=True) if child.pid not in before]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)


def kill_in_first_level(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Have a process killed while the sessions of the first level are open."""
    ask_all: Callable[..., Any] = Target._ask_all
    timers: list[threading.Timer] = []

    def strike() -> None:
        by_kind(os.getpid())[kind][0].send_signal(signal.SIGKILL)

    def ask(target: Target, method: str, *arguments: Any) -> Any:
        if method == "run" and not timers:
            timers.append(threading.Timer(short_levels.RAMP_S + 0.6, strike))
            timers[0].start()
        return ask_all(target, method, *arguments)

    monkeypatch.setattr(Target, "_ask_all", ask)


def measure(corpus: Path, **settings: Any) -> Record:
    places = {"corpus": corpus, "words": corpus / "words.ctm", "save": corpus.parent / "runs"}
    return stopwav.load([SPEAKS], **{**places, "streams": STREAMS, "rounds": 1, **settings})


@pytest.mark.soak
@pytest.mark.usefixtures("short", "nothing_left")
def test_a_killed_client_is_a_crashed_level_and_the_next_one_is_measured(
    monkeypatch: pytest.MonkeyPatch, corpus: Path
) -> None:
    kill_in_first_level(monkeypatch, "client")
    record = measure(corpus)
    first, second = levels(record)
    assert (first.status, first.message) == ("crashed", "crashed (SIGKILL)")
    assert second.status == "ok"
    assert all(session["failure"] is None for session in second.read()["sessions"])
    target, lost, whole = results(record)
    assert [warning.code for warning in target.warnings if warning.code.startswith("level-")] == ["level-crashed"]
    assert (lost.status, whole.status) == ("crashed", "ok")
    assert record.complete


@pytest.mark.usefixtures("short", "nothing_left")
@pytest.mark.parametrize("kind", ["serve", pytest.param("worker", marks=pytest.mark.soak)])
def test_a_killed_server_fails_the_sessions_of_its_level_and_is_started_again(
    kind: str, monkeypatch: pytest.MonkeyPatch, corpus: Path
) -> None:
    kill_in_first_level(monkeypatch, kind)
    record = measure(corpus)
    first, second = levels(record)
    assert (first.status, second.status) == ("ok", "ok")
    failed = [session["failure"][0] for session in first.read()["sessions"] if session["failure"]]
    assert "closed" in failed
    assert set(failed) <= {"closed", "refused"}
    assert first.read()["server_end"] == ("serve crashed (SIGKILL)" if kind == "serve" else "")
    assert all(session["failure"] is None for session in second.read()["sessions"])
    _, disturbed, whole = results(record)
    codes = [warning.code for warning in disturbed.warnings]
    assert "session-closed" in codes
    assert ("server-ended" in codes) == (kind == "serve")
    assert disturbed.params["verdict"] in ("fails", "invalid")  # where others keep this client from its schedule
    assert whole.metrics["failed"].value == 0
    # Whatever became of them, the sessions that were planned are there, each once.
    assert counted(first) == planned(2)
    assert counted(second) == planned(3)


def planned(streams: int) -> list[tuple[str, float]]:
    """The sessions that count of a level of the tiny corpus, by its seed."""
    waited_s = max(short_levels.STEADY_S, 1.6)  # twice the limit of the objective
    seed = hash((0, streams, 0))
    schedule = schedule_level(streams, [0.5] * 3, short_levels.STEADY_S, waited_s, "streams", seed)
    names = utterance_names()
    return [(names[item.utterance], item.begin_s) for item in schedule.sessions if item.part == "steady"]


def utterance_names() -> list[str]:
    names = [f"u{number:03d}" for number in range(3)]
    random.Random(0).shuffle(names)
    return names


def load_command(corpus: Path, rounds: int) -> list[str]:
    places = ["--corpus", str(corpus), "--words", str(corpus / "words.ctm")]
    return ["load", SPEAKS, *places, "--streams", "2,3", "--rounds", str(rounds)]


@pytest.mark.soak
def test_a_killed_command_is_resumed_where_it_was(tmp_path: Path, corpus: Path) -> None:
    command = load_command(corpus, 1)
    life = LoadLife(command, tmp_path / "runs")
    # The first level is there, and the second has begun.
    life._wait_for_pieces(1)
    time.sleep(1.0)
    life._process.kill()
    assert not life.end()
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    before = [piece.key for piece in levels(Record.read(path))]
    assert before == [["level", 0, SPEAKS, 2, 0]]
    record = run_undisturbed(command, tmp_path / "runs", LoadLife)
    assert record.path == path
    assert [piece.key for piece in levels(record)] == [*before, ["level", 0, SPEAKS, 3, 0]]
    assert record.complete


@pytest.mark.soak
def test_kills_of_any_process_lose_nothing_repeat_nothing_and_leave_nothing_behind(
    tmp_path: Path, corpus: Path
) -> None:
    command = load_command(corpus, 2)
    undisturbed = run_undisturbed(command, tmp_path / "undisturbed", LoadLife)
    wanted = {tuple(piece.key): counted(piece) for piece in levels(undisturbed)}
    assert len(wanted) == 4
    killed = kill_and_resume(command, tmp_path / "killed", kills=KILLS, most=MOST, seed=7, life_of=LoadLife)
    lost = 0
    for record in killed.runs:
        assert sorted(tuple(piece.key) for piece in levels(record)) == sorted(wanted)
        for piece in levels(record):
            if piece.status == "ok":
                assert counted(piece) == wanted[tuple(piece.key)]
            else:
                assert piece.message
                lost += 1
        results(record)
    print(f"{killed.kills} kills in {len(killed.runs)} runs; {lost} levels failed, each with its reason")
