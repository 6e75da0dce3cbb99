"""Comparisons with a budget that are stopped at random moments: what is there is a valid answer, and is resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stopwav.record import Record
from stopwav.report.document import Detail
from stopwav.studies.compare.card import Card
from stopwav.studies.study import StudyRun, check_run, study_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals as Linux has them")
ENGINES = ["fake,batch_ms=2", "fake,batch_ms=30"]


def start(folder: Path, budget: str, *options: str) -> subprocess.Popen[str]:
    settings = ["--frames", "10,20", "--samples", "6", "--budget", budget, "--save", str(folder), "--no-html", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "stopwav", "compare", *ENGINES, *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def check_answer(record: Record) -> None:
    """All that is shown of a run can be computed, and names no winner from one round."""
    check_run(record, study_of(record), "")
    run = StudyRun(record)
    run.document(Detail())
    card = run.extras["card"]
    assert isinstance(card, Card)
    for verdict in (*card.verdicts, *card.by_length):
        if verdict.change.verdict != "undecided":
            assert verdict.change.n >= 2
            assert verdict.change.low is not None
    rounds = {piece.key[1] for piece in record.pieces if piece.key[0] in ("length", "sample")}
    assert len(rounds) > 1 or not card.pareto.beaten


def stop_and_resume(folder: Path, which: signal.Signals, after_s: float) -> None:
    process = start(folder, "4s")
    while not list(folder.glob("*.jsonl")) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(which)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    before = [Record.read(path) for path in folder.glob("*.jsonl")]
    for record in before:
        check_answer(record)
    process = start(folder, "8s", "--resume", "--precision", "50%")
    output, errors = process.communicate(timeout=120)
    assert "Traceback" not in errors
    assert process.returncode in (0, 1), errors
    (path,) = folder.glob("*.jsonl")
    after = Record.read(path)
    check_answer(after)
    assert "Verdicts" in output
    for record in before:
        assert after.pieces[: len(record.pieces)] == record.pieces


@pytest.mark.parametrize("which", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGKILL])
def test_a_stopped_comparison_is_an_answer_and_is_resumed(which: signal.Signals, tmp_path: Path) -> None:
    stop_and_resume(tmp_path, which, 1.0)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_a_comparison_stopped_at_twenty_moments(which: signal.Signals, tmp_path: Path) -> None:
    moments = random.Random(20)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        stop_and_resume(folder, which, moments.uniform(0.0, 4.5))
