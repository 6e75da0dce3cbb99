"""Measure a grid twice, with both runs killed at random moments and resumed: is anything lost, and do they agree?

    python benchmarks/grid_twice.py [ENGINE] [--durations 1,2,5,8,32] [--batch-sizes 1,4,8] [--rounds 3]
                                    [--values-s 2] [--seed 0] [--save FOLDER]

Without an engine, the engine is a tiny Wav2Vec2 with random weights. The runs take turns: each continues until SIGKILL
ends it some pieces later, in the middle of a piece, so that a drift of the machine affects both. Each turn is a new
`stopwav.grid(…, resume=True)`. What a kill left on disk must be the beginning of the finished run, which must contain
each round of each cell once.

Two runs agree on a cell if the 95 % interval of the ratio of their real-time factors (Welch's, on the logarithms of the
medians of rounds, as in `stopwav diff`) includes 1; for equal cells that fails once in twenty. Prints Markdown; the
exit code is 1 if a piece is lost or duplicated.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stopwav import Plan, grid
from stopwav.measure.machine import describe
from stopwav.record import Record
from stopwav.stats import Estimate
from stopwav.stats.change import Change, ask_ratio
from stopwav.stats.estimate import scaled
from stopwav.studies.budget import planned_rounds
from stopwav.studies.grid.cell import exact
from stopwav.studies.grid.cells import cells_of, measurements
from stopwav.studies.grid.spec import GridSpec

# A turn is killed after up to so many pieces, and then up to so many seconds: before its first piece, or within a later
# one.
MAX_PIECES, MAX_DELAY_S = 6, 4.0
POLL_S = 0.25


@dataclass
class Run:
    """One of the two runs: its folder, its total time, and what was on disk after each kill."""

    folder: Path
    took_s: float = 0.0
    left: list[bytes] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """Its run files, without those that a kill left empty."""
        return [file for file in self.folder.glob("*.jsonl") if file.stat().st_size]

    @property
    def record(self) -> Record:
        """The record in its run file."""
        return Record.read(self.files[0])

    @property
    def whole_lines(self) -> bytes:
        """The complete lines on disk."""
        content = b"".join(file.read_bytes() for file in self.files)
        return content[: content.rfind(b"\n") + 1]

    def turn(self, command: Sequence[str], pieces: int, delay_s: float) -> bool:
        """Continue the run and kill it after that many more pieces and a delay; return whether it ended before that."""
        start_s, goal = time.perf_counter(), self.whole_lines.count(b"\n") + pieces
        process = subprocess.Popen([*command, "--take", str(self.folder)])
        try:
            while process.poll() is None and self.whole_lines.count(b"\n") < goal:
                time.sleep(POLL_S)
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        self.took_s += time.perf_counter() - start_s
        if code < 0:
            self.left.append(self.whole_lines)
        if code > 0:
            sys.exit(f"the run in {self.folder} ended with exit code {code}")
        return code == 0

    def faults(self) -> list[str]:
        """The pieces that are lost, duplicated, or changed since a kill, as messages."""
        if len(self.files) != 1:
            return [f"{len(self.files)} run files instead of one"]
        record, content = self.record, self.whole_lines
        spec = GridSpec(**record.header.spec)
        places = [(exact(cell.duration_s), cell.batch_size) for cell in cells_of(spec)]
        expected: set[tuple[str | int, ...]] = {
            ("cell", n, *place, 0) for n in planned_rounds(spec.rounds) for place in places
        }
        # A throttled piece is measured once more, on purpose.
        expected |= {(*piece.key[:4], 1) for piece in record.pieces if piece.data.get("throttled")}
        lines = content.count(b"\n")
        present = {tuple(piece.key) for piece in record.pieces}
        checks = {
            f"{len(expected - present)} pieces are lost": expected <= present,
            f"{lines} lines for header, {len(expected)} pieces and end": lines == len(expected) + 2,
            "the run is not marked as complete": record.complete,
            "lines from before a kill have changed": all(content.startswith(part) for part in self.left),
        }
        return [fault for fault, fine in checks.items() if not fine]


def run_both(runs: Sequence[Run], command: Sequence[str], seed: int) -> None:
    """Continue both runs in turn, each killed at random moments, until both are complete."""
    draw = random.Random(seed)
    incomplete = list(runs)
    while incomplete:
        run = incomplete.pop(0)
        if not run.turn(command, draw.randint(0, MAX_PIECES), draw.uniform(0, MAX_DELAY_S)):
            incomplete.append(run)


def change_of(a: Sequence[float], b: Sequence[float]) -> Change:
    """How the second run's rounds of a cell compare with the first's, at 95 % for this cell alone."""
    return ask_ratio("rtf", "", "time", a, b, threshold=0.01).answer(0.95)


def text(rtf: Estimate) -> str:
    """A real-time factor with its interval."""
    interval = "" if rtf.low is None or rtf.high is None else f" [{rtf.low:.2E}, {rtf.high:.2E}]"
    return "–" if rtf.value is None else f"{rtf.value:.2E}{interval}"


def report(runs: Sequence[Run]) -> None:
    """Print the table of both runs, how often each was killed, and how long each took."""
    first, second = (dict(measurements(run.record)) for run in runs)
    print("| duration × batch | RTF, first run | RTF, second run | second / first | agree |\n|---|---|---|---|---|")
    agreed = 0
    for cell in sorted(first, key=lambda cell: (cell.duration_s, cell.batch_size)):
        both = (first[cell], second[cell])
        change = change_of(*([round_.median_s for round_ in measurement.good] for measurement in both))
        agree = change.low is not None and change.high is not None and change.low <= 1 <= change.high
        agreed += agree
        ratio = change.note if change.low is None else f"{change.value:.3f} [{change.low:.3f}, {change.high:.3f}]"
        rtfs = " | ".join(text(scaled(measurement.time, 1 / cell.audio_s)) for measurement in both)
        print(f"| {cell} | {rtfs} | {ratio} | {'yes' if agree else 'no'} |")
    kills = " and ".join(str(len(run.left)) for run in runs)
    seconds = " and ".join(f"{run.took_s:.0f}" for run in runs)
    print(f"\nThey agree in {agreed} of {len(first)} cells. Killed {kills} times, {seconds} s in all.")


def save_tiny(folder: str) -> str:
    """Save a tiny Wav2Vec2 in the folder and return its name as an engine."""
    from grid_wav2vec2 import save_model

    save_model(Path(folder), tiny=True)
    return f"transformers:{folder}"


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", nargs="?")
    parser.add_argument("--durations", default="1,2,5,8,32")
    parser.add_argument("--batch-sizes", default="1,4,8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--values-s", type=float, default=2.0, help="seconds of values after which a round ends")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="keep both runs there; by default they are deleted")
    parser.add_argument("--take", help=argparse.SUPPRESS)  # one turn of the run in that folder
    return parser.parse_args()


def take(chosen: argparse.Namespace) -> None:
    """Continue the run in a folder until it is complete."""
    # Most cells stop by precision; heavy ones, with seconds per call, stop by time, with one or two values per round.
    plan = Plan(min_values=5, max_values=50, warmup_s=0.5, min_values_s=0.5, max_values_s=chosen.values_s)
    grid(
        chosen.engine,
        durations=[float(part) for part in chosen.durations.split(",")],
        batch_sizes=[int(part) for part in chosen.batch_sizes.split(",")],
        rounds=chosen.rounds,
        plan=plan,
        save=chosen.take,
        resume=True,
    )


def main() -> None:
    """Run both and print the comparison."""
    chosen = options()
    if chosen.take:
        return take(chosen)
    machine = describe()
    with tempfile.TemporaryDirectory() as scratch:
        engine = chosen.engine or save_tiny(f"{scratch}/tiny-wav2vec2")
        sizes = ["--durations", chosen.durations, "--batch-sizes", chosen.batch_sizes]
        counts = ["--rounds", str(chosen.rounds), "--values-s", str(chosen.values_s)]
        folder = chosen.save or Path(scratch)
        runs = [Run(folder / name) for name in ("first", "second")]
        run_both(runs, [sys.executable, __file__, engine, *sizes, *counts], chosen.seed)
        print(f"{chosen.engine or 'tiny Wav2Vec2'} on {machine.cpu}, {machine.logical_cores} cores\n")
        report(runs)
        faults = [f"{run.folder.name} run: {fault}" for run in runs for fault in run.faults()]
    print(
        "\n".join(faults)
        or "Every round of every cell is there once, and the lines from before each kill are unchanged."
    )
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
