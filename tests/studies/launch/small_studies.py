"""A run of seconds of each study, on this machine or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noise_corpus import write_corpus

from stopwav.measure.plan import Plan
from stopwav.record import Record
from stopwav.studies.study import find_study

SHAPES = "T,U\n10,3\n12,4\n8,2\n20,5\n18,4\n40,9\n6,1\n15,3\n"
ENGINES = ["fake", "fake,final=one"]
FAST = Plan(min_values=2, max_values=2, warmup_s=0, min_values_s=0.001, max_values_s=0.1)
TINY = "conformer-transducer,layers=1,width=16,heads=2,feed_forward=24,kernel=3,symbols=20"


class SmallStudy:
    """The settings of a study; its corpus and shapes are written into a folder."""

    def __init__(self, study: str, folder: Path) -> None:
        self._study = study
        corpus, shapes = write_corpus(folder / "corpus", count=6, seconds=0.3), folder / "shapes.csv"
        shapes.write_text(SHAPES)
        of_shapes: dict[str, Any] = {"shapes": str(shapes)}
        settings: dict[str, dict[str, Any]] = {
            "latency": {"engines": ENGINES, "corpus": corpus, "words": corpus / "words.ctm"},
            "grid": {"engines": ["fake"], "durations": [0.1, 0.2], "batch_sizes": [1, 2], "plan": FAST},
            "compare": {"engines": ENGINES, "corpus": corpus, "frames": [10, 20], "samples": 4, "plan": FAST},
            "loss": {"losses": ["torch"], **of_shapes, "batch_size": [2], "batches": 2, "vocab": [12], "dim": 8}
            | {"plan": FAST},
            "step": {"model": TINY, **of_shapes, "batch_size": 2, "steps": 2},
        }
        self._settings = settings[study]

    def run(self, save: Path, **settings: Any) -> Record:
        """Measure it."""
        return find_study(self._study).run(**{**self._settings, "save": save, "rounds": 1, **settings})


def planned(record: Record) -> set[tuple[str | int, ...]]:
    """The keys of the pieces that a run plans.

    Loads are those of processes, however many there were; a cell needs a process of its own unless another opened one.
    """
    return {key for key in record.keys if key[0] not in ("load", "own")}
