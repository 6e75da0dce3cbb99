"""A round of a grid in one process against a process for each cell: what it saves, and whether the cells agree.

    python benchmarks/grid_rounds.py [ENGINE] [--device cuda] [--dtype float32] [--tiny] [--rounds 3] [--values-s 2]
                                     [--durations 1,2,5,8,32] [--batch-sizes 1,4,8] [--save FOLDER]

Without an engine, the engine is a CTC model of wav2vec2-base's size with random weights, or with --tiny a small one. A
process for each cell is a grid of that cell alone. Both take turns, round by round, so that a drift of the machine
affects both. Two ways agree on a cell if the 95 % interval of the ratio of their real-time factors (Welch's, on the
logarithms of the medians of rounds, as in `stopwav diff`) includes 1, which needs two rounds; for equal cells that
fails once in twenty. Prints Markdown after every round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stopwav import Plan, grid
from stopwav.measure.machine import describe
from stopwav.measure.rounds import Round
from stopwav.record import Record
from stopwav.stats import summarise_rounds
from stopwav.stats.change import ask_ratio
from stopwav.stats.estimate import scaled
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import measurements

HEADER = (
    "| duration × batch | RTF, one process | RTF, a process each | one / each | agree | peak, one | peak, each |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass
class Way:
    """One of the two ways: its rounds of each cell, and the seconds of each of its rounds."""

    rounds: dict[GridCell, list[Round]] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)

    def take(self, records: Sequence[Record], took_s: float) -> None:
        """Add a round."""
        self.took_s.append(took_s)
        for record in records:
            for cell, measured in measurements(record):
                self.rounds.setdefault(cell, []).extend(measured.good)

    def rtf_text(self, cell: GridCell) -> str:
        """The real-time factor of a cell with its interval."""
        values = [round_.samples.values_s for round_ in self.rounds[cell] if round_.samples]
        rtf = scaled(summarise_rounds(values), 1 / cell.audio_s)
        interval = "" if rtf.low is None or rtf.high is None else f" [{rtf.low:.2E}, {rtf.high:.2E}]"
        return "–" if rtf.value is None else f"{rtf.value:.2E}{interval}"

    def peak_text(self, cell: GridCell) -> str:
        """The peaks of a cell in MB, on the device where there is one: from the smallest to the largest round."""
        rounds = self.rounds[cell]
        device = [round_.cuda_memory.peak.allocated_bytes for round_ in rounds if round_.cuda_memory]
        exact = [round_.memory.peak_bytes for round_ in rounds if round_.memory and not round_.leftover_bytes]
        bounds = [round_.memory.peak_bytes for round_ in rounds if round_.memory]
        peaks = device or exact or bounds[:1]
        if not peaks:
            return "–"
        low, high = min(peaks) / 1e6, max(peaks) / 1e6
        return ("" if device or exact else "≤ ") + (f"{low:.0f}" if high - low < 1 else f"{low:.0f} to {high:.0f}")


def row(cell: GridCell, one: Way, each: Way) -> tuple[str, bool]:
    """The row of a cell, and whether the two ways agree."""
    base, other = ([round_.median_s for round_ in way.rounds[cell]] for way in (each, one))
    change = ask_ratio("rtf", "", "time", base, other, threshold=0.01).answer(0.95)
    agree = change.low is None or change.high is None or change.low <= 1 <= change.high
    interval = "" if change.low is None else f" [{change.low:.3f}, {change.high:.3f}]"
    ratio = "–" if change.value is None else f"{change.value:.3f}{interval}"
    verdict = "–" if change.low is None else "yes" if agree else "no"
    texts = (one.rtf_text(cell), each.rtf_text(cell), ratio, verdict, one.peak_text(cell), each.peak_text(cell))
    return f"| {cell} | {' | '.join(texts)} |", agree


def report(one: Way, each: Way) -> None:
    """Print the table of both ways, in how many cells they agree, and how long a round took."""
    print(HEADER)
    cells = sorted(one.rounds.keys() & each.rounds.keys(), key=lambda cell: (cell.duration_s, cell.batch_size))
    rows = [row(cell, one, each) for cell in cells]
    print("\n".join(text for text, _ in rows))
    seconds = ["  ".join(f"{took_s:.0f}" for took_s in way.took_s) for way in (one, each)]
    print(f"\nThey agree in {sum(agree for _, agree in rows)} of {len(rows)} cells.")
    print(f"Seconds of each round: one process {seconds[0]}; a process for each cell {seconds[1]}.")


def save_engine(folder: Path, tiny: bool, dtype: str) -> str:
    """Save the model and return its name as an engine."""
    from grid_wav2vec2 import save_model

    save_model(folder, tiny=tiny)
    return f"transformers:{folder},dtype={dtype}"


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", nargs="?")
    parser.add_argument("--device")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--values-s", type=float, default=2.0, help="seconds of values after which a visit ends")
    parser.add_argument("--durations", default="1,2,5,8,32")
    parser.add_argument("--batch-sizes", default="1,4,8")
    parser.add_argument("--save", type=Path, help="keep the runs there; by default they are deleted")
    return parser.parse_args()


def main() -> None:
    """Measure both ways in turn and print the comparison."""
    chosen = options()
    durations = [float(part) for part in chosen.durations.split(",")]
    sizes = [int(part) for part in chosen.batch_sizes.split(",")]
    plan = Plan(min_values=5, max_values=50, warmup_s=0.5, min_values_s=0.5, max_values_s=chosen.values_s)
    ways = {"one": Way(), "each": Way()}
    with tempfile.TemporaryDirectory() as scratch:
        engine = chosen.engine or save_engine(Path(scratch) / "wav2vec2", chosen.tiny, chosen.dtype)
        shared: dict[str, Any] = {"device": chosen.device, "rounds": 1, "plan": plan}
        grids = {"one": [(durations, sizes)], "each": [([d], [size]) for d in durations for size in sizes]}
        for index in range(chosen.rounds):
            for name in ("one", "each") if index % 2 == 0 else ("each", "one"):
                folder = (chosen.save or Path(scratch)) / f"{name}-{index}"
                start_s = time.perf_counter()
                records = [
                    grid(engine, durations=rows, batch_sizes=columns, save=folder, seed=index, **shared)
                    for rows, columns in grids[name]
                ]
                ways[name].take(records, time.perf_counter() - start_s)
                print(f"round {index + 1}, {name}: {ways[name].took_s[-1]:.0f} s", file=sys.stderr, flush=True)
            # After each round, so that a benchmark that is cut still says what it has.
            machine = describe()
            print(f"{chosen.engine or 'wav2vec2'} on {chosen.device or machine.cpu}, {machine.logical_cores} cores\n")
            report(ways["one"], ways["each"])


if __name__ == "__main__":
    main()
