"""A run that is stopped by Ctrl-C loses nothing, and a finished one is not run again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from latency_runs import MakeCorpus, run

import stopwav
from stopwav.record import Record

UTTERANCES = 60
# An engine that lets the first stream, at most 20 more to warm up, and 9 others pass, and then waits for a file.
GATED = """
import pathlib, time
from stopwav import EngineInfo, Hypothesis
class Gated:
    info = EngineInfo(name="gated", version="1")
    opened = 0
    def open(self):
        self.opened += 1
        while self.opened > 30 and not pathlib.Path(__file__).with_name("gate").exists():
            time.sleep(0.01)
        return self
    def push(self, samples): return []
    def finish(self): return [Hypothesis("one two")]
"""


def test_a_finished_run_is_not_run_again(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus()
    first = run("fake", corpus, tmp_path)
    again = run("fake", corpus, tmp_path, resume=True)
    assert again.path == first.path
    other = run("fake", corpus, tmp_path, resume=True, chunk_ms=50)
    assert other.path != first.path


def streams(record: Record) -> list[str]:
    return sorted(str(piece.key[3]) for piece in record.pieces if piece.key[0] == "stream")


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=UTTERANCES, seconds=0.2)
    (tmp_path / "gated.py").write_text(GATED)
    command = [
        *(sys.executable, "-m", "stopwav", "latency", f"{tmp_path / 'gated.py'}:Gated", "--corpus", str(corpus)),
        *("--words", str(corpus / "words.ctm"), "--rounds", "1", "--no-html", "--save", str(tmp_path / "runs")),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(path.read_bytes().count(b"\n") > 4 for path in (tmp_path / "runs").glob("*.jsonl")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    (tmp_path / "gate").touch()
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    assert streams(Record.read(path)) == [f"u{k:03d}" for k in range(UTTERANCES)]


def test_a_run_stopped_before_its_memory_pass_measures_it_when_it_is_resumed(
    tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    corpus = tiny_corpus()
    whole = run("fake", corpus, tmp_path)
    lines = whole.path.read_text().splitlines(keepends=True)
    stopped = [line for line in lines if '"memory"' not in line and '"end"' not in line]
    assert len(stopped) == len(lines) - 2
    whole.path.write_text("".join(stopped))
    resumed = run("fake", corpus, tmp_path, resume=True)
    assert (resumed.path, resumed.complete) == (whole.path, True)
    assert [piece.status for piece in resumed.pieces if piece.key[0] == "memory"] == ["ok"]
    # The process that was loaded for it is one more of this round; no stream was measured again.
    assert [piece.key for piece in resumed.pieces if piece.key[0] == "load"] == [["load", 0, "fake", n] for n in (0, 1)]
    (result,) = stopwav.results(Record.read(resumed.path))
    assert result.metrics["peak_host_bytes"].value


def test_an_engine_that_fails_has_its_memory_piece_with_the_reason(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("class Broken:\n    def __init__(self): raise MemoryError\n")
    record = run(f"{tmp_path / 'broken.py'}:Broken", tiny_corpus(), tmp_path)
    assert record.complete
    (memory,) = [piece for piece in record.pieces if piece.key[0] == "memory"]
    assert (memory.status, memory.message) == ("skipped", "no stream of this round completed")
