"""A run that is stopped, by Ctrl-C or by force, loses nothing and repeats nothing."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from latency_runs import MakeCorpus, run, script

from stopwav.record import Record

pytestmark = pytest.mark.alone

# Few enough that a run gets to its end between kills, many enough that it takes several lives.
UTTERANCES = 30


def test_a_finished_run_is_not_run_again(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus()
    first = run("fake", corpus, tmp_path)
    again = run("fake", corpus, tmp_path, resume=True)
    assert again.path == first.path
    other = run("fake", corpus, tmp_path, resume=True, chunk_ms=50)
    assert other.path != first.path


def keys(path: Path) -> list[tuple[object, ...]]:
    return [tuple(piece.key) for piece in Record.read(path).pieces]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_kills_lose_nothing_and_repeat_nothing(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=UTTERANCES, seconds=0.3)
    engine = script(tmp_path, service_ms=3, final="one two", partials=["one", "one two"])

    def hundred_kills(seed: int) -> int:
        """How many runs were finished while a hundred attempts were killed."""
        moments = random.Random(seed)
        kills = finished = 0
        while kills < 100:
            save = tmp_path / f"runs-{seed}-{finished}"
            killed = _attempt(engine, corpus, save, moments.uniform(0.3, 1.5))
            kills += killed
            finished += not killed
        return finished

    # Two at a time: each is mostly one process.
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(hundred_kills, (0, 1))) >= 3


def _attempt(engine: str, corpus: Path, save: Path, seconds: float) -> bool:
    """Whether a run, begun or resumed, had to be killed after `seconds`; its file is checked either way."""
    command = [
        *(sys.executable, "-m", "stopwav", "latency", engine, "--corpus", str(corpus), "--words"),
        *(str(corpus / "words.ctm"), "--rounds", "1", "--save", str(save), "--resume", "--json", "--no-html"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)  # may come as it ends by itself: its exit status says which was first
    _, errors = process.communicate()
    killed = process.returncode == -signal.SIGKILL
    assert killed or process.returncode == 0, errors.decode()
    # An attempt killed before its header was whole leaves no run; the next one starts afresh.
    runs = [path for path in save.glob("*.jsonl") if path.read_bytes().count(b"\n") > 0]
    assert len(runs) <= 1
    for path in runs:
        found = keys(path)
        assert len(found) == len(set(found))
        if not killed:
            assert {key[3] for key in found if key[0] == "stream"} == {f"u{k:03d}" for k in range(UTTERANCES)}
    return killed


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=20, seconds=0.5)
    engine = script(tmp_path, service_ms=20)
    command = [
        *(sys.executable, "-m", "stopwav", "latency", engine, "--corpus", str(corpus), "--words"),
        *(str(corpus / "words.ctm"), "--rounds", "1", "--no-html", "--save", str(tmp_path / "runs")),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not any(len(keys(path)) > 3 for path in (tmp_path / "runs").glob("*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "--resume" in errors
    assert "Traceback" not in errors
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    streamed = [key for key in keys(path) if key[0] == "stream"]
    assert len(streamed) == len(set(streamed)) == 20
