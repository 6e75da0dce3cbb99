"""Settings that cannot be, and targets that are not there: each a line that names the value and the way out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
import short_levels
from command_line import Done
from command_line import command as stopwav
from noise_corpus import write_corpus

from stopwav.servers.serve.background import BackgroundServer

FOLDER = Path(__file__).parent
ENGINES = FOLDER / "load_engines.py"
# Nothing listens on the lowest port.
LEVELS = ",".join(map(str, range(2, 12)))
NOBODY = "vosk-server:ws://127.0.0.1:1"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", count=3, seconds=0.5)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("THOROUGH_S", 1.0), ("LOOK_S", 1.0), ("PATIENCE_S", 1.0)):
        monkeypatch.setattr(short_levels.plan, name, value)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)


def load(corpus: Path, *arguments: object) -> Done:
    places = ("--corpus", corpus, "--words", corpus / "words.ctm", "--save", corpus.parent / "runs", "--no-html")
    return stopwav("load", *arguments, *places)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument 'TARGET'"),
        (("nosuch",), "unknown engine 'nosuch'"),
        (("fake", "fake"), "a target is named twice"),
        (("fake", "--streams", "0"), "--streams 0: should be greater than 0"),
        (("fake", "--streams", "x"), "--streams: 'x' is not a whole number"),
        (("fake", "--slo", "nonsense"), "unknown objective 'nonsense'; there are captions, dictation, voice-agent"),
        (("fake", "--slo", "word_latency_p95<"), "'word_latency_p95<' is not a condition such as"),
        (("fake", "--slo", ""), "give an objective: captions"),
        (("fake", "--slo", "word_latency_p95<0"), "a limit of word_latency_p95 is a time from 1 ms to 1 h"),
        (("fake", "--slo", "failed<200%"), "a limit of a share is above 0 and below 100 %"),
        (("fake", "--slo", "word_latency_p100<1"), "there is no metric 'word_latency_p100'"),
        (("fake", "--pid", "1"), "--pid goes with one server"),
        ((NOBODY, "--pid", "999999999"), "--pid 999999999: should be at most 1,000,000"),
        ((NOBODY, "--pid", "999999"), "--pid 999999: there is no such process; give that of the server"),
        ((NOBODY, "--pace", "virtual"), f"--pace virtual is for engines in a process, and {NOBODY} is a server"),
        (("vosk-server",), "vosk-server: give its address, such as vosk-server:ws://localhost:2700"),
        (("vosk-server:http://x",), "'http://x' is not an address such as ws://HOST:PORT"),
        (("fake", "--soak", "10s"), "--soak holds a level: give it with --streams"),
        (("fake", "--soak", "never", "--streams", "2"), "give a time, such as 90s, 5min or 2h"),
        (("fake", "--soak", "9s", "--streams", "2,3"), "--soak holds a level"),
        (("fake", "--faults"), "--faults holds a level: give it with --streams"),
        (("fake", "--faults", "--pace", "virtual", "--streams", "2"), "leave out --faults and --soak"),
        ((f"{ENGINES}:Whole", "--pace", "virtual"), "does not stream (it has no open()), and a streaming engine is"),
    ],
)
def test_what_cannot_be_is_a_line_that_names_it(arguments: Sequence[str], said: str, corpus: Path) -> None:
    done = load(corpus, *arguments)
    assert done.code == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list((corpus.parent / "runs").glob("*"))


def test_an_utterance_that_is_longer_than_the_budget_allows(tmp_path: Path) -> None:
    done = load(write_corpus(tmp_path / "long", count=1, seconds=61.0), "fake", "--quick")
    assert done.code == 2
    assert "its shortest utterance lasts 61 s" in done.stderr
    assert "give a --budget of 10min, or cut the audio" in done.stderr


def test_an_objective_about_words_needs_transcripts(corpus: Path) -> None:
    (corpus / "transcripts.txt").unlink()
    done = stopwav("load", "fake", "--corpus", corpus, "--slo", "dictation", "--save", corpus.parent / "runs")
    assert done.code == 2
    assert "--slo word_latency_p90<1: --corpus" in done.stderr
    assert "has no transcripts" in done.stderr


def test_a_server_that_is_not_there_is_a_result_within_seconds(corpus: Path) -> None:
    begin_s = time.monotonic()
    done = load(corpus, NOBODY)
    assert done.code == 2
    assert "1 stream: refused: vosk-server: cannot connect to ws://127.0.0.1:1" in " ".join(done.stdout.split())
    assert "is the server running?" in done.stdout
    # Not as many as a search or a plan would take.
    assert time.monotonic() - begin_s < 20


def test_a_server_that_refuses_streams_is_measured_with_what_it_refused(corpus: Path, short: None) -> None:
    with BackgroundServer(f"{ENGINES}:Speaks", "--max-streams", "1") as server:
        done = load(corpus, f"vosk-server:{server.url()}", "--streams", "4", "--rounds", "1", "--json")
    (_, level) = json.loads(done.stdout)["results"]
    assert level["params"]["verdict"] in ("fails", "invalid")  # where others keep this client from its schedule
    assert level["params"]["failures"]["refused"] > 1
    messages = {warning["code"]: warning["message"] for warning in level["warnings"]}
    assert "all 1 streams are in use" in messages["session-refused"]


def test_an_engine_that_fails_in_every_stream_is_said_with_its_error(corpus: Path, short: None) -> None:
    done = load(corpus, f"{ENGINES}:ThirdChunk", "--streams", "2", "--rounds", "1")
    assert done.code == 2
    assert "RuntimeError: no third chunk (load_engines.py:" in " ".join(done.stdout.split())
    virtual = load(corpus, f"{ENGINES}:ThirdChunk", "--streams", "2", "--rounds", "1", "--pace", "virtual")
    assert virtual.code in (1, 2)
    assert "RuntimeError: no third chunk" in " ".join((virtual.stdout + virtual.stderr).split())


def test_an_offline_engine_is_served(corpus: Path, short: None) -> None:
    done = load(corpus, f"{ENGINES}:Whole", "--streams", "2", "--rounds", "1", "--json")
    (_, level) = json.loads(done.stdout)["results"]
    assert (level["metrics"]["wer"]["value"], level["metrics"]["failed"]["value"]) == (0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_in_the_middle_prints_what_there_is(tmp_path: Path, corpus: Path) -> None:
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143}
    started = {number: start(corpus, tmp_path / number.name) for number in expected}
    for number, process in started.items():
        await_first_level(process, tmp_path / number.name)
    time.sleep(0.5)
    for number, process in started.items():
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
        assert process.returncode == expected[number], errors
        assert b"Traceback" not in errors
        measured = [row["name"].rpartition(" ")[2] for row in json.loads(out)["results"]][1:]
        assert measured == LEVELS.split(",")[: len(measured)]
        assert 1 <= len(measured) < len(LEVELS.split(","))
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive


def start(corpus: Path, save: Path) -> subprocess.Popen[bytes]:
    """A run of more levels than anybody waits for."""
    places = ["--corpus", corpus, "--words", corpus / "words.ctm", "--save", save, "--no-html", "--json"]
    command = [FOLDER / "short_levels.py", "load", f"{ENGINES}:Speaks", "--streams", LEVELS, "--rounds", "1"]
    return subprocess.Popen(
        [sys.executable, *map(str, [*command, *places])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def await_first_level(process: subprocess.Popen[bytes], save: Path) -> None:
    deadline_s = time.monotonic() + 60
    while not any(b'"spent"' in path.read_bytes() for path in save.glob("*.jsonl")):
        assert time.monotonic() < deadline_s
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
