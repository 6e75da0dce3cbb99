"""A grid taken twice, both runs killed at random moments and resumed: is anything lost, and do they agree?

    python benchmarks/grid_twice.py [ENGINE] [--durations 1,2,5,8,32] [--batch-sizes 1,4,8] [--rounds 3]
                                    [--values-s 2] [--seed 0] [--save FOLDER]

Without an engine, a tiny Wav2Vec2 with random weights. The runs take turns: one goes on until SIGKILL ends it, some
pieces later and in the middle of another, then the other goes on, so that a machine that drifts does so under both.
Each turn is a fresh `stopwav.grid(…, resume=True)`. Whatever a kill left on disk must be the beginning of the finished
run, and that must hold each round of each cell once.

Two runs agree on a cell where the 95 % interval of the ratio of their real-time factors (Welch's, on the logarithms of
the medians of rounds, as `stopwav diff` has it) holds 1; of cells that are the same, that fails one in twenty. Prints
Markdown; the exit code is 1 where a piece is lost or there twice.
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
from stopwav.studies.grid.run import GridSpec, cells_of
from stopwav.studies.grid.cell import exact
from stopwav.studies.round_pieces import measurements
from stopwav.studies.grid.results import scaled

# A turn ends within so many pieces, and then so many seconds: from before its first to somewhere in its last.
MOST_PIECES, MOST_DELAY_S = 6, 4.0
POLL_S = 0.25


@dataclass
class Run:
    """One of the two: where it is, how long it took, and what was on disk whenever it was killed."""

    folder: Path
    took_s: float = 0.0
    left: list[bytes] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """Its run files; one that a kill left empty, before its first line, is none."""
        return [file for file in self.folder.glob("*.jsonl") if file.stat().st_size]

    @property
    def record(self) -> Record:
        """What it holds."""
        return Record.read(self.files[0])

    @property
    def sound(self) -> bytes:
        """The whole lines on disk."""
        content = b"".join(file.read_bytes() for file in self.files)
        return content[: content.rfind(b"\n") + 1]

    def turn(self, command: Sequence[str], pieces: int, delay_s: float) -> bool:
        """Whether it ended by itself, before that many pieces more and a delay had passed and it was killed."""
        start_s, goal = time.perf_counter(), self.sound.count(b"\n") + pieces
        process = subprocess.Popen([*command, "--take", str(self.folder)])
        try:
            while process.poll() is None and self.sound.count(b"\n") < goal:
                time.sleep(POLL_S)
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        self.took_s += time.perf_counter() - start_s
        if code < 0:
            self.left.append(self.sound)
        if code > 0:
            sys.exit(f"the run in {self.folder} ended with exit code {code}")
        return code == 0

    def faults(self) -> list[str]:
        """What is lost, there twice, or no longer what it was when the run was killed."""
        if len(self.files) != 1:
            return [f"{len(self.files)} run files instead of one"]
        record, content = self.record, self.sound
        spec = GridSpec(**record.header.spec)
        places = [(exact(cell.duration_s), cell.batch_size) for cell in cells_of(spec)]
        wanted: set[tuple[str | int, ...]] = {("cell", n, *place, 0) for n in range(spec.rounds) for place in places}
        # What was throttled is taken once more, by itself and on purpose.
        wanted |= {(*piece.key[:4], 1) for piece in record.pieces if piece.data.get("throttled")}
        lines = content.count(b"\n")
        found = {tuple(piece.key) for piece in record.pieces}
        checks = {
            f"{len(wanted - found)} pieces are lost": wanted <= found,
            f"{lines} lines for header, {len(wanted)} pieces and end": lines == len(wanted) + 2,
            "the run is not marked as finished": record.complete,
            "what a kill had left was changed": all(content.startswith(part) for part in self.left),
        }
        return [fault for fault, fine in checks.items() if not fine]


def take_both(runs: Sequence[Run], command: Sequence[str], seed: int) -> None:
    """Both runs, in turns that end at random moments, until both are complete."""
    draw = random.Random(seed)
    going = list(runs)
    while going:
        run = going.pop(0)
        if not run.turn(command, draw.randint(0, MOST_PIECES), draw.uniform(0, MOST_DELAY_S)):
            going.append(run)


def change_of(a: Sequence[float], b: Sequence[float]) -> Change:
    """How the second run's rounds of a cell compare with the first's, at 95 % for this cell alone."""
    return ask_ratio("rtf", "", "time", a, b, threshold=0.01).answer(0.95)


def text(rtf: Estimate) -> str:
    """A real-time factor with its interval."""
    interval = "" if rtf.low is None or rtf.high is None else f" [{rtf.low:.2E}, {rtf.high:.2E}]"
    return "–" if rtf.value is None else f"{rtf.value:.2E}{interval}"


def report(runs: Sequence[Run]) -> None:
    """Print the table of both runs, and how they came about."""
    first, second = (dict(measurements(run.record)) for run in runs)
    print("| duration × batch | RTF, first run | RTF, second run | second / first | agree |\n|---|---|---|---|---|")
    agreed = 0
    for cell in sorted(first, key=lambda cell: (cell.duration_s, cell.batch_size)):
        both = (first[cell], second[cell])
        change = change_of(*([one.median_s for one in side.good] for side in both))
        agree = change.low is not None and change.high is not None and change.low <= 1 <= change.high
        agreed += agree
        ratio = change.note if change.low is None else f"{change.value:.3f} [{change.low:.3f}, {change.high:.3f}]"
        rtfs = " | ".join(text(scaled(side.time, 1 / cell.audio_s)) for side in both)
        print(f"| {cell} | {rtfs} | {ratio} | {'yes' if agree else 'no'} |")
    kills = " and ".join(str(len(run.left)) for run in runs)
    seconds = " and ".join(f"{run.took_s:.0f}" for run in runs)
    print(f"\nThey agree in {agreed} of {len(first)} cells. Killed {kills} times, {seconds} s in all.")


def save_tiny(folder: str) -> str:
    """The engine's name of a tiny Wav2Vec2 that is saved there."""
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
    parser.add_argument("--save", type=Path, help="keep both runs there; without it they are thrown away")
    parser.add_argument("--take", help=argparse.SUPPRESS)  # one turn of the run in that folder
    return parser.parse_args()


def take(chosen: argparse.Namespace) -> None:
    """Go on with the run of a folder until it is complete."""
    # Most cells end by precision; the heavy ones, seconds a call, by time, and then have a value or two in a round.
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
    """Take both runs and print what came of them."""
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
        take_both(runs, [sys.executable, __file__, engine, *sizes, *counts], chosen.seed)
        print(f"{chosen.engine or 'tiny Wav2Vec2'} on {machine.cpu}, {machine.logical_cores} cores\n")
        report(runs)
        faults = [f"{run.folder.name} run: {fault}" for run in runs for fault in run.faults()]
    print("\n".join(faults) or "Every round of every cell is there once, and what each kill had left is unchanged.")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
