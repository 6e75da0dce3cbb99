"""What a command shows while it measures, and what it prints when it is stopped."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from stopwav.cli.live import RunDisplay, follow

TESTS = Path(__file__).parents[1]


def start(*arguments: object, **options: object) -> "subprocess.Popen[str]":
    """A command that counts, in a process of its own, with the toy study on its path."""
    paths = [str(TESTS), str(TESTS / "toy_study"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", "stopwav", "counting", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TERM": "xterm", "COLUMNS": "80", "LINES": "30"},
        text=True,
        **options,  # type: ignore[call-overload]
    )


def wait_for_pieces(folder: Path, count: int) -> Path:
    """The run file, once it has so many lines."""
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        for path in folder.glob("counting-*.jsonl"):
            if len(path.read_bytes().splitlines()) > count:
                return path
        time.sleep(0.02)
    raise AssertionError("no run was begun")


# Too precise for any clock: only the budget would end it.
LONG = ("sum", "loop", "--budget", "1h", "--precision", "0.000001%", "--no-html")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_stopped_prints_its_answer(tmp_path: Path, number: signal.Signals, code: int) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start(*LONG, "--save", tmp_path, "--json", **pipes)
    wait_for_pieces(tmp_path, 10)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code, stderr
    assert "at most 60 min (--budget)" in stderr
    assert "interrupted; these are the results so far: continue with --resume" in stderr
    times = [result["metrics"]["count_time"] for result in json.loads(stdout)["results"]]
    assert all(time["n"] >= 2 and time["low"] < time["value"] < time["high"] for time in times)


def test_what_was_stopped_before_it_began_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(display: RunDisplay) -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        follow(stopped)
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "stopwav: interrupted before anything was measured\n"


def test_a_terminal_shows_the_table_while_it_fills_in(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start(*LONG, "--save", tmp_path, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    wait_for_pieces(tmp_path, 60)
    time.sleep(1.2)  # two redraws
    process.send_signal(signal.SIGINT)
    drawn = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # the other side has closed it
            break
        if not block:
            break
        drawn += block
    stdout, _ = process.communicate(timeout=20)
    os.close(ours)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode("utf-8", "replace"))
    assert "time, µs" in shown  # the table, before the command ended
    assert re.search(r"\d:\d\d elapsed; \d+:\d\d left; next: round \d+", shown)
    assert "counting" in shown
    assert "time, µs" in stdout  # and the answer on standard output


def test_without_a_terminal_lines_say_that_it_is_alive(tmp_path: Path) -> None:
    """The first whole table is said at once, and a heartbeat follows every half minute: here after a second."""
    code = (
        "import sys; from stopwav.cli import live, main; live.HEARTBEAT_S = 0.3; "
        f"sys.argv = ['stopwav', 'counting', *{[*map(str, LONG)]!r}, '--save', {str(tmp_path)!r}]; main()"
    )
    paths = [str(TESTS), str(TESTS / "toy_study"), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    path = wait_for_pieces(tmp_path, 10)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert re.search(rf"every result has a first value after \d:\d\d; stopwav report {path} shows them", stderr)
    assert len(re.findall(r"stopwav: \d:\d\d elapsed; .* left; next: round", stderr)) >= 1, stderr
    assert "\x1b" not in stderr
