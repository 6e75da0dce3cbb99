"""Short grids of scripted engines, and grids made up from numbers, for the tests of the study and of its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import stopwav
from stopwav import Plan, Round
from stopwav.measure.memory import EXACT, HostPeak
from stopwav.measure.sampler import Samples
from stopwav.record import Header, Record
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cell_place, round_order
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.stored_rounds import round_to_piece

# The rules of a full plan, small enough for a test.
FAST = Plan(min_values=3, max_values=5, warmup_s=0, min_values_s=0.01, max_values_s=0.2)
ENGINE = {"name": "made up", "version": "1", "device": "cpu", "notes": [], "data_dependent": True}


def run(engine: str, save: Path, **options: Any) -> Record:
    """A grid of one round, quickly."""
    return stopwav.grid(engine, save=save, **{"rounds": 1, "plan": FAST, **options})


def engine_file(folder: Path, body: str) -> str:
    """An engine whose `transcribe(self, batch)` has the body given; `d` is the duration and `B` the batch size."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    path = folder / "engine.py"
    path.write_text(
        "import os, signal, sys, time\nimport numpy as np\nfrom stopwav import EngineInfo\n"
        "class Own:\n"
        "    info = EngineInfo(name='own', version='1')\n"
        "    def transcribe(self, batch):\n"
        "        d, B = batch[0].duration_s, len(batch)\n"
        f"{lines}\n"
        "        return [''] * B\n"
    )
    return f"{path}:Own"


def made_up(
    folder: Path,
    time_s: Callable[[GridCell, int], float | str],
    *,
    rounds: int = 3,
    complete: bool = True,
    **spec: Any,
) -> Record:
    """A run whose round `i` of a cell took `time_s(cell, i)` seconds, or ended with that status."""
    full = GridSpec(**{"engines": ["made-up"], **spec}, rounds=rounds)
    count = len(list(folder.glob("grid-*")))
    header = Header(
        stopwav="0.1.0",
        study="grid",
        started="2026-01-01T00:00:00Z",
        spec=full.stored(),
        corpus={"name": full.audio, "digest": "0" * 16},
        machine={"cpu": "made up", "fingerprint": "f" * 12},
    )
    with Record.create(folder / f"grid-{count}.jsonl", header) as record:
        for index in range(rounds):
            for cell in round_order(full, index):
                took = time_s(cell, index)
                one = good_round(index, cell, took) if isinstance(took, float) else None
                one = one or Round(index, took, f"message of {cell}", "its last words")  # type: ignore[arg-type]
                record.append(round_to_piece(cell_place(cell).key(index, 0), one))
        if complete:
            record.finish()
    return record


def good_round(index: int, cell: GridCell, took_s: float) -> Round:
    """A round of ten equal values, with a peak of 100 MB and 1 MB for each second of audio over a model of 90 MB."""
    samples = Samples(
        first_s=2 * took_s,
        warmup_s=(took_s,) * 3,
        loops=1,
        values_s=(took_s,) * 10,
        device_values_s=(),
        stages_s=({},) * 10,
        cautions=(),
    )
    memory = HostPeak(100_000_000 + round(1e6 * cell.audio_s), 90_000_000, EXACT)
    return Round(index, "ok", load_s=0.5, samples=samples, memory=memory, facts={"engine": ENGINE})
