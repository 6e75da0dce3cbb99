"""Any process of any study may be killed at any moment: nothing is lost, nothing is measured twice, nothing hangs."""

import sys
from pathlib import Path

import pytest
from killed_runs import kill_and_resume, run_undisturbed
from noise_corpus import write_corpus

from stopwav.record import Record

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
    pytest.mark.timeout(1800),
]
STUDIES = ("latency", "grid", "compare", "loss", "step")
SHAPES = "T,U\n10,3\n12,4\n8,2\n20,5\n18,4\n40,9\n6,1\n15,3\n"
# Kills in `make soak`, 200 in all. Fewer where a new process imports torch.
KILLS = {"latency": 70, "grid": 60, "compare": 40, "loss": 15, "step": 15}
# Pieces between two kills at most: no more than come before the last.
MOST = {"latency": 6, "grid": 1, "compare": 6, "loss": 1, "step": 1}


# A scripted engine with a thread that never ends, as those of native libraries: its process does not end by itself.
LINGERING = """
import threading
from stopwav.engines.fake import Fake
class Lingering(Fake):
    def __init__(self, batch_ms: float = 0.0) -> None:
        super().__init__(batch_ms=batch_ms)
        threading.Thread(target=threading.Event().wait).start()
"""


def commands(folder: Path, rounds: int) -> dict[str, list[str]]:
    """A small run of each study."""
    corpus = write_corpus(folder / "corpus", count=6, seconds=0.3)
    shapes = folder / "shapes.csv"
    shapes.write_text(SHAPES)
    (folder / "lingering.py").write_text(LINGERING)
    engine = f"{folder / 'lingering.py'}:Lingering"
    engines = [engine, f"{engine},batch_ms=1"]
    tiny = "conformer-transducer,layers=1,width=16,heads=2,feed_forward=24,kernel=3,symbols=20"
    batches = ["--shapes", str(shapes), "--batch-size", "2"]
    settings = {
        "latency": [*engines, "--corpus", str(corpus), "--words", str(corpus / "words.ctm")],
        "grid": [engine, "--durations", "0.1,0.2", "--batch-sizes", "1"],
        "compare": [*engines, "--corpus", str(corpus), "--frames", "10,20", "--samples", "6"],
        "loss": ["torch", *batches, "--batches", "2", "--vocab", "12", "--dim", "8"],
        "step": [tiny, *batches, "--steps", "2"],
    }
    return {study: [study, *settings[study], "--rounds", str(rounds)] for study in STUDIES}


def planned(record: Record) -> set[tuple[str | int, ...]]:
    """The keys of the pieces that a run plans: the loads are those of processes, however many there were."""
    return {tuple(piece.key) for piece in record.pieces if piece.key[0] != "load"}


def ended_early(record: Record, key: tuple[str | int, ...]) -> bool:
    """Whether something failed after which this piece is not tried."""
    failed = [piece for piece in record.pieces if piece.status != "ok"]
    if record.header.study == "step":  # a step that fails ends its round, and memory is measured in the first
        return any(piece.key[1] == key[1] for piece in failed)
    # Of an engine that does not load to be described nothing more is tried; to count operations, no more of those.
    return any("loaded" in piece.data and piece.key[1] in key and piece.key[0] in ("model", key[0]) for piece in failed)


@pytest.mark.soak
@pytest.mark.parametrize("study", STUDIES)
def test_kills_lose_nothing_repeat_nothing_and_leave_nothing_behind(study: str, tmp_path: Path) -> None:
    if study in ("loss", "step"):
        pytest.importorskip("torch")
    command = commands(tmp_path, rounds=2)[study]
    kills, seed = KILLS[study], STUDIES.index(study)
    print(f"{study}: {kills} kills with seed {seed}")
    undisturbed = run_undisturbed(command, tmp_path / "undisturbed")
    killed = kill_and_resume(command, tmp_path / "killed", kills=kills, most=MOST[study], seed=seed)
    print(f"{killed.kills} kills in {len(killed.runs)} runs")
    for record in killed.runs:
        assert planned(record) <= planned(undisturbed)
    lost = [(record.path, key) for record in killed.runs for key in planned(undisturbed) - planned(record)]
    lost = [(path, key) for path, key in lost if not ended_early(Record.read(path), key)]
    assert lost == []
    # A finished run is not measured again.
    path = killed.runs[-1].path
    content = path.read_bytes()
    assert run_undisturbed(command, path.parent).path == path
    assert path.read_bytes() == content
