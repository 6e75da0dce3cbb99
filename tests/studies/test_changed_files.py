"""A run is resumed only while the files that it measures are as they were: sources, models and audio."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from noise_corpus import write_corpus

import stopwav
from stopwav import Plan, StopwavError
from stopwav.record import Record
from stopwav.studies.digests import SMALL_BYTES, changed_file, content_digests, outline_digests

OWN = """
import sys
sys.path.insert(0, ".")
import part
from stopwav import EngineInfo, Hypothesis
class Own:
    info = EngineInfo(name="own", version="1")
    def __init__(self, model=""): pass
    def open(self): return self
    def push(self, samples): return []
    def finish(self): return [Hypothesis("red fox")]
    def transcribe(self, batch): return ["red fox"] * len(batch)
def no_loss(*inputs): raise ValueError("no")
def no_job(): raise ValueError("no")
"""
FAST = Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.01, max_values_s=0.1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an engine, a module that it imports, its model and a corpus."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    Path("part.py").write_text("SIZE = 1")
    Path("model").mkdir()
    Path("model", "config.json").write_text("{}")
    write_corpus(Path("corpus"), count=2, seconds=0.2)
    return tmp_path


def latency(**more: Any) -> Record:
    return stopwav.latency(["own.py:Own,model=model"], corpus="corpus", words="corpus/words.ctm", rounds=1, **more)


def grid(**more: Any) -> Record:
    small = {"durations": [0.3], "batch_sizes": [1], "rounds": 1, "plan": FAST}
    return stopwav.grid("own.py:Own,model=model", audio="corpus", **small, **more)


def compare(**more: Any) -> Record:
    small = {"frames": [10], "samples": 2, "rounds": 1, "plan": FAST}
    return stopwav.compare(["own.py:Own,model=model"], corpus="corpus", **small, **more)


def loss(**more: Any) -> Record:
    return stopwav.loss(["own.py:no_loss"], shapes="shapes.csv", batches=1, rounds=1, batch_size=2, **more)


def step(**more: Any) -> Record:
    return stopwav.step("own.py:no_job", rounds=1, **more)


def cut(record: Record) -> None:
    """Leave the run as if it had been killed after its first piece."""
    record.path.write_text("".join(record.path.read_text().splitlines(keepends=True)[:2]))


def append(path: str) -> None:
    with open(path, "a") as file:
        file.write("\n")


def other_audio(path: str) -> None:
    """Change one sample: the size stays as it was."""
    content = bytearray(Path(path).read_bytes())
    content[-1] ^= 1
    Path(path).write_bytes(content)


CHANGES: dict[str, Callable[[str], None]] = {
    "own.py": append,
    "part.py": append,
    "model": lambda path: append(f"{path}/config.json"),
    "corpus/u001.wav": other_audio,
}


@pytest.mark.parametrize("study", [latency, grid, pytest.param(compare, marks=pytest.mark.soak)])
def test_a_changed_file_is_refused_by_name(folder: Path, study: Callable[..., Record]) -> None:
    record = study()
    assert not {piece.status for piece in record.pieces} - {"ok"}
    cut(record)
    for path, change in CHANGES.items():
        before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        change(path)
        with pytest.raises(StopwavError) as error:
            study(resume=True)
        assert str(error.value) == (
            f"cannot resume {record.path}: {path} has changed since; measure again without --resume"
        )
        for file, content in before.items():
            file.write_bytes(content)
    resumed = study(resume=True)
    assert (resumed.path, resumed.complete, resumed.previous_count) == (record.path, True, 1)


@pytest.mark.parametrize("study", [loss, step])
def test_so_it_is_with_a_loss_and_a_step_of_the_users_own(folder: Path, study: Callable[..., Record]) -> None:
    Path("shapes.csv").write_text("T,U\n8,2\n9,2\n10,2\n11,2\n")
    record = study()
    append("own.py")
    with pytest.raises(StopwavError, match=r"cannot resume .*: own\.py has changed since; measure again"):
        study(resume=True)
    Path("own.py").write_text(OWN)
    assert study(resume=True).path == record.path
    if study is loss:
        append("shapes.csv")
        with pytest.raises(StopwavError, match=r"shapes\.csv has changed since"):
            study(resume=True)


def test_a_file_that_is_gone_is_missed_only_by_a_run_that_still_needs_it(folder: Path) -> None:
    record = latency()
    os.rename("corpus/u001.wav", "elsewhere.wav")
    assert latency(resume=True).path == record.path
    cut(record)
    done = command("latency", "own.py:Own,model=model", "--corpus", "corpus", "--words", "corpus/words.ctm",
                   "--rounds", 1, "--resume")  # fmt: skip
    assert done.code == 2
    assert "corpus/u001.wav is no longer there; put it back, or measure again" in done.stderr


def test_a_run_of_an_older_version_is_resumed(folder: Path) -> None:
    record = latency()
    cut(record)
    header, *pieces = record.path.read_text().splitlines(keepends=True)
    fields = json.loads(header)
    assert set(fields.pop("digests")) == {"own.py", "part.py", "model", "corpus/u000.wav", "corpus/u001.wav"}
    record.path.write_text("".join([json.dumps(fields) + "\n", *pieces]))
    append("own.py")
    assert latency(resume=True).path == record.path


def test_a_grid_on_a_folder_that_has_new_files_is_refused(folder: Path) -> None:
    cut(grid())
    # It comes first, and would be heard instead of the others.
    Path("corpus/a000.wav").write_bytes(Path("corpus/u000.wav").read_bytes())
    with pytest.raises(StopwavError, match="corpus has changed since"):
        grid(resume=True)


def test_a_large_file_of_a_model_is_told_by_its_size_and_time(folder: Path) -> None:
    weights = Path("model/weights.bin")
    weights.write_bytes(bytes(SMALL_BYTES + 1))
    digests = outline_digests(["model", "no such path", "\0", 3, None, ""])
    assert list(digests) == ["model"]
    Path("model/latency-20260101-000000.jsonl").write_text("a run that was saved there")
    assert changed_file(digests) is None
    os.utime(weights, ns=(0, 0))
    assert changed_file(digests) == "model"


def test_what_cannot_be_read_has_a_digest_too(folder: Path) -> None:
    digests = content_digests(["model", "own.py"])
    assert digests["model"] == "unreadable"
    assert changed_file(digests) is None
