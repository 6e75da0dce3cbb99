"""A budgeted run that is stopped at any moment, by Ctrl-C or by force, leaves a valid answer that can be resumed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from noise_corpus import write_corpus

from stopwav.record import Record
from stopwav.report.document import Detail
from stopwav.studies.budget import spent_s
from stopwav.studies.study import StudyRun

BUDGET_S = 5.0
# A moment may be before there is a run file, in any round, or after the last.
LATEST_S = 6.0


def start(corpus: Path, save: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stopwav", "latency", "fake", "fake,service_ms=2", "--corpus", str(corpus)]
    more = ["--words", str(corpus / "words.ctm"), "--budget", f"{BUDGET_S:g}s", "--save", str(save), "--no-html"]
    return subprocess.Popen(
        [*command, *more, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(path: Path) -> Record:
    """What a run file holds is a valid answer: results, verdicts and documents, and no winner from one round."""
    record = Record.read(path)
    run = StudyRun(record)
    for page in (False, True):
        assert run.document(Detail(page=page)).findings
    for result in run.results:
        rounds = {key[1] for key in record.keys if key[0] == "stream" and key[2] == result.name}
        assert len(rounds) - 1 <= int(str(result.params["rounds"])) <= len(rounds)
        codes = [warning.code for warning in result.warnings]
        assert ("incomplete" in codes) == (not record.complete)
    verdicts = run.extras.get("verdicts")
    for verdict in [] if verdicts is None else verdicts.verdicts:  # type: ignore[attr-defined]
        for change in (verdict.felt, verdict.rtf):
            assert change.rule in ("anytime", None)
            assert change.verdict == "undecided" or (change.n >= 2 and change.low is not None)
    return record


def stop(number: signal.Signals, moment_s: float, folder: Path) -> str:
    """Stop a run at a moment, look at what it left, resume it, and return when it was stopped, in words."""
    corpus = write_corpus(folder / "corpus", count=5, seconds=0.5)
    save = folder / "runs"
    process = start(corpus, save)
    time.sleep(moment_s)
    process.send_signal(number)
    _, errors = process.communicate()
    assert "Traceback" not in errors, errors
    # A file without a whole header is none.
    runs = [path for path in save.glob("*.jsonl") if path.read_bytes().count(b"\n")]
    kept = [check(path) for path in runs]
    resumed = start(corpus, save, "--resume")
    printed, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert "Traceback" not in errors
    assert "fake,service_ms=2" in printed
    whole = [path for path in save.glob("*.jsonl") if path.read_bytes().count(b"\n")]
    (path,) = runs or whole
    record = check(path)
    # Where most of the time was gone, what was left may be too little for the first sweep.
    assert record.complete or spent_s(record) >= BUDGET_S - 1
    for before in kept:
        assert record.keys[: len(before.keys)] == before.keys
    assert spent_s(record) <= BUDGET_S + 5.0
    return f"{number.name} at {moment_s:.2f} s: {len(kept[0].keys) if kept else 'no'} pieces, {len(record.keys)} after"


def moments(number: signal.Signals, count: int) -> list[float]:
    return [random.Random(f"{number} {index}").uniform(0.3, LATEST_S) for index in range(count)]


# Ctrl-C is `test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on`.
@pytest.mark.parametrize(
    ("number", "moment_s"), [pytest.param(signal.SIGINT, 3.0, marks=pytest.mark.soak), (signal.SIGKILL, 3.5)]
)
def test_a_run_that_is_stopped_leaves_a_valid_answer(number: signal.Signals, moment_s: float, tmp_path: Path) -> None:
    stop(number, moment_s, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_so_it_does_at_twenty_random_moments(number: signal.Signals, tmp_path: Path) -> None:
    for index, moment_s in enumerate(moments(number, 20)):
        print(stop(number, moment_s, tmp_path / str(index)))
