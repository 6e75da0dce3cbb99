"""An engine whose description cannot be stored is an error of that engine alone; one of odd types is stored plainly."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from noise_corpus import write_corpus

import stopwav
from stopwav import Plan
from stopwav.record import Record

ENGINES = """
import pathlib
import numpy as np
from stopwav import EngineInfo, Hypothesis

class Base:
    fields = {}
    def __init__(self):
        self.info = EngineInfo(**{"name": "own", "version": "1", **self.fields})
    def open(self): return self
    def push(self, samples): return []
    def finish(self): return [Hypothesis("red fox")]
    def transcribe(self, batch): return ["red fox"] * len(batch)

class Plain(Base):
    fields = {
        "name": pathlib.Path("a/b"), "version": b"1", "sample_rate_hz": np.int32(16000), "chunk_s": np.float32(0.5),
        "lookahead_s": np.array(0.25), "parameters": np.uint8(7), "precision": np.dtype("float32"),
        "notes": {"nested": {"of": [1, np.nan]}}, "untrained": np.bool_(False), "symbols_per_s": np.float64(2),
    }

class Nan(Base):
    fields = {"chunk_s": np.nan}

class Infinite(Base):
    fields = {"symbols_per_s": float("inf")}

class Ahead(Base):
    fields = {"lookahead_s": -0.1}

class Huge(Base):
    fields = {"parameters": 10**400}

class Array(Base):
    fields = {"sample_rate_hz": np.array([8000, 16000])}

class Later(Base):
    def __init__(self):
        super().__init__()
        object.__setattr__(self.info, "symbols_per_s", float("nan"))

class Other(Base):
    def __init__(self):
        self.info = {"name": "own"}
"""
REASONS = {
    "Nan": "chunk_s is nan, which is not a finite number",
    "Infinite": "symbols_per_s is inf",
    "Ahead": "lookahead_s and parameters not below; got 16000, 0.1, -0.1",
    "Huge": "parameters is of type int, which is not a whole number of at most 64 bits",
    "Array": "sample_rate_hz is array",
    "Later": "symbols_per_s is nan",
    "Other": "its info is {'name': 'own'}, not an EngineInfo",
}
FAST = Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.01, max_values_s=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "own.py").write_text(ENGINES)
    write_corpus(folder / "corpus", count=1, seconds=0.2)
    return folder


def check(record: Record, wrong: list[str]) -> None:
    """Each engine has its own result; what was good is measured, and the run can be read."""
    printed = command("report", record.path, "--json")
    assert printed.code == 1, printed
    by_name: dict[str, Any] = {}
    for result in json.loads(printed.stdout)["results"]:
        by_name.setdefault(result["name"].rpartition(":")[2], result)
    assert by_name["fake"]["status"] == by_name["Plain"]["status"] == "ok"
    for name in wrong:
        assert by_name[name]["status"] == "error", by_name[name]
        assert any(REASONS[name] in warning["message"] for warning in by_name[name]["warnings"]), by_name[name]
    described = next(
        piece.data["engine"] for piece in record.pieces if piece.data.get("engine", {}).get("name") == "a/b"
    )
    assert (described["lookahead_s"], described["chunk_s"], described["parameters"]) == (0.25, 0.5, 7)
    assert (described["notes"], described["version"]) == (["{'nested': {'of': [1, nan]}}"], "1")


def names(folder: Path, wrong: list[str]) -> list[str]:
    return [*(f"{folder / 'own.py'}:{name}" for name in ("Plain", *wrong)), "fake"]


def test_in_latency(folder: Path) -> None:
    corpus = folder / "corpus"
    engines = names(folder, list(REASONS))
    record = stopwav.latency(engines, corpus=corpus, words=corpus / "words.ctm", rounds=1, save=folder)
    check(record, list(REASONS))


def test_one_that_is_made_with_its_class_is_an_error_of_that_engine_too(folder: Path) -> None:
    path = folder / "early.py"
    path.write_text("from stopwav import EngineInfo\nclass Early:\n    info = EngineInfo('x', '1', lookahead_s=-1)\n")
    corpus = folder / "corpus"
    engines = [f"{path}:Early", "fake"]
    record = stopwav.latency(engines, corpus=corpus, words=corpus / "words.ctm", rounds=1, save=folder)
    early, fake = stopwav.results(record)
    assert (early.status, fake.status) == ("error", "ok")
    assert "the engine did not load: EngineInfo: " in early.warnings[0].message
    with pytest.raises(stopwav.StopwavError, match="EngineInfo"):
        stopwav.latency(engines[:1], corpus=corpus, explain=True, save=folder)


def test_in_compare(folder: Path) -> None:
    small = {"rounds": 1, "frames": [10], "samples": 1, "plan": FAST}
    wrong = ["Nan", "Later"]
    check(stopwav.compare(names(folder, wrong), corpus=folder / "corpus", save=folder, **small), wrong)


@pytest.mark.parametrize("name", ["Ahead", "Later"])
def test_in_the_grid(folder: Path, name: str) -> None:
    small = {"rounds": 1, "durations": [0.1], "batch_sizes": [1], "plan": FAST}
    record = stopwav.grid(f"{folder / 'own.py'}:{name}", save=folder, **small)
    (piece,) = record.pieces
    assert piece.status == "error"
    assert REASONS[name] in piece.message
    assert command("report", record.path).code == 2
