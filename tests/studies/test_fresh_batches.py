"""Every call of an engine gets its input as it is, whatever the calls before did with theirs."""

from pathlib import Path

import numpy as np
import pytest
from noise_corpus import write_corpus

import stopwav
from stopwav import Audio, Plan
from stopwav.studies.fresh_batches import MAX_READY_BYTES, FreshBatches

# An engine that works on what it hears, destroys it, and would have nothing to do in the next call.
DESTRUCTIVE = """
from stopwav import EngineInfo
class Destructive:
    info = EngineInfo(name="destructive", version="1")
    kept = []
    def transcribe(self, batch):
        size = len(batch)
        assert all(audio.samples.any() for audio in batch), "the input was changed"
        for audio in batch:
            audio.samples[:] = 0
        self.kept.append(batch.pop())
        batch.clear()
        return ["red fox"] * size
"""
FAST = Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.01, max_values_s=0.1)


@pytest.fixture
def engine(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(DESTRUCTIVE)
    return f"{tmp_path / 'own.py'}:Destructive"


def test_in_the_grid(engine: str, tmp_path: Path) -> None:
    small = {"durations": [0.1], "batch_sizes": [1, 3], "rounds": 1, "plan": FAST, "traces": True}
    record = stopwav.grid(engine, save=tmp_path, audio="noise", **small)
    assert [(piece.key[0], piece.status, piece.message) for piece in record.pieces] == [
        ("cell", "ok", ""),
        ("cell", "ok", ""),
        ("trace", "ok", ""),
        ("trace", "ok", ""),
    ]
    # Short calls: a value is of many, each with its own input.
    assert all(piece.data["samples"]["loops"] > 1 for piece in record.pieces[:2])


def test_in_compare(engine: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", count=2)
    small = {"frames": [10], "samples": 2, "rounds": 1, "plan": FAST}
    record = stopwav.compare([engine], save=tmp_path, corpus=corpus, **small)
    assert {(piece.status, piece.message) for piece in record.pieces} == {("ok", "")}


def test_copies_are_of_their_own_and_few_at_a_time() -> None:
    audio = Audio(np.ones(MAX_READY_BYTES // 16, dtype=np.float32), 16_000)
    batches = FreshBatches(audio, size=2)
    assert [batches.prepare(count) for count in (1, 2, 3)] == [1, 2, 2]
    taken = [sound for _ in range(3) for sound in batches.take()]
    assert len(taken) == 6
    for sound in taken:
        assert sound.samples.all()
        sound.samples[:] = 0
    # One that is larger than all that may lie ready.
    assert FreshBatches(audio, size=8).prepare(5) == 1
