"""Every transducer loss that is installed, in turns in one process: right or wrong, time, memory, largest batch.

    python benchmarks/loss_arena.py [--losses fused,k2,…] [--dtypes tf32,bfloat16,float32] [--device cuda]
                                    [--rounds 3] [--largest tf32]

Minutes where `stopwav loss` takes a quarter of an hour for each precision, since it starts a process for each loss and
round: here packages are imported once, and what they set is set back before each value. Steps are timed by the same
clock, on the same batches of LibriSpeech's shapes, outputs of 512, 500 symbols. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from fused_stages import peak_over_inputs_bytes

from stopwav.losses.implementation import Needs
from stopwav.losses.registry import BUILT_IN, installed_losses, split_name
from stopwav.measure.clock import KernelClock, WallClock
from stopwav.measure.machine import describe
from stopwav.speech.batches import Batch, make_batches, spread
from stopwav.speech.shapes import load_shapes
from stopwav.stats import t_quantile
from stopwav.studies.loss.check import TOLERANCES, LossCheck
from stopwav.studies.loss.largest_batch import nested_batch
from stopwav.studies.loss.loss_step import LossRunner, LossSetup
from stopwav.studies.loss.spec import DIM, LOSS_PLAN, VOCAB

# stopwav's other own loss takes seconds where the others take milliseconds.
LEFT_OUT = ("torch",)
BATCHES, VALUES = 5, 4
# Batches are tried until the smallest that failed is larger by this factor at most.
CLOSE = 1.05
MOST = 1024


@dataclass
class Entry:
    """A loss in a precision, and what was seen of it."""

    name: str
    setup: LossSetup
    runner: LossRunner
    deviation: float
    gap: float | None
    peak_bytes: float = 0.0
    rounds_s: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def needs(self) -> Needs:
        """What the loss needs, and which logits it holds."""
        return next(listed.installed_needs for listed in BUILT_IN if listed.name == split_name(self.name)[0])

    def size(self, batch: Batch) -> int:
        """The cells that the loss holds for a batch, or its frames where it holds no logits."""
        if self.needs.logits == "joiner":
            return len(batch) * max(batch.frames)
        return batch.cells if self.needs.logits == "packed" else batch.padded_cells


def entry_of(name: str, dtype: str, device: str) -> Entry | str:
    """Check a loss against the oracle and import it; a sentence where that failed."""
    setup = LossSetup(name, VOCAB, DIM, 0, dtype, device)
    try:
        checked = LossCheck(setup, 0).run()
        deviation = max(checked["deviations"].values())
        return Entry(name, setup, LossRunner(setup, LOSS_PLAN), deviation, checked["gap"])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:150]}"


def time_in_turns(entries: Sequence[Entry], batches: Sequence[Batch], rounds: int, dtype: str, device: str) -> None:
    """Time all losses on each batch in turn, forwards and backwards; the first round measures memory too."""
    clock = KernelClock(device) if device.startswith("cuda") else WallClock()
    for number in range(rounds):
        seconds: dict[str, list[float]] = {entry.name: [] for entry in entries}
        for seed, batch in enumerate(batches):
            for entry in entries if number % 2 == 0 else entries[::-1]:
                if entry.problem:
                    continue
                torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
                try:
                    step = entry.runner.step(batch, seed)
                    for _ in range(2):
                        step()
                    times = [clock.time(step) for _ in range(VALUES)]
                    if number == 0 and device.startswith("cuda"):
                        step.drop_gradients()
                        entry.peak_bytes = max(entry.peak_bytes, peak_over_inputs_bytes(step))
                except Exception as error:
                    entry.problem = f"{type(error).__name__}: {str(error)[:150]}"
                    continue
                seconds[entry.name].append(median(timing.device_s or timing.wall_s for timing in times))
        for entry in entries:
            if seconds[entry.name] and not entry.problem:
                entry.rounds_s.append(sum(seconds[entry.name]) / len(batches))


def find_largest(entry: Entry, measured: Sequence[Batch], device: str) -> str:
    """The largest batch that completed, and how the smallest that did not ended, to one part in twenty."""
    utterances = nested_batch(load_shapes(), MOST, 0)
    free_bytes = torch.cuda.mem_get_info(device)[0] - 2e9
    bytes_each = entry.peak_bytes / max(map(entry.size, measured))

    def first(count: int) -> Batch:
        return Batch(utterances.frames[:count], utterances.tokens[:count])

    counts = range(1, MOST + 1)
    limit = entry.needs.max_logits
    allowed = MOST if limit is None else max(n for n in counts if VOCAB * entry.size(first(n)) <= limit)
    predicted = max(n for n in counts if n == 1 or bytes_each * entry.size(first(n)) <= free_bytes)
    count, fits, fails, why = min(allowed, predicted), 0, allowed + 1, "not tried" if allowed == MOST else "refused"
    while fits < count < fails and not (fits and fails <= CLOSE * fits):
        try:
            entry.runner.run_once(first(count), 0)
            torch.cuda.synchronize()
            fits = count
            count = min(fails - 1, max(fits + 1, round(CLOSE * fits))) if fails > allowed else (fits + fails) // 2
        except Exception as error:
            oom = isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)
            fails, why = count, "oom" if oom else str(error)[:80]
            count = (fits + fails) // 2 if fits else round(fails / CLOSE)
        torch.cuda.empty_cache()
    return f"{fits} ({fails}: {why})"


def row_of(entry: Entry, dtype: str) -> str:
    """The row of a loss in Markdown."""
    if entry.problem or not entry.rounds_s:
        return f"| `{entry.name}` | {entry.problem} | | |"
    logs = [math.log(seconds) for seconds in entry.rounds_s]
    centre = sum(logs) / len(logs)
    span = ""
    if len(logs) > 1:
        deviation = math.sqrt(sum((log - centre) ** 2 for log in logs) / (len(logs) - 1))
        half = t_quantile(0.975, len(logs) - 1) * deviation / math.sqrt(len(logs))
        span = f" [{1e3 * math.exp(centre - half):.1f}–{1e3 * math.exp(centre + half):.1f}]"
    right = "" if entry.deviation <= TOLERANCES[dtype] else ", **wrong**"
    error = f"approximate: value off by {entry.gap:.0%}" if entry.gap is not None else f"{entry.deviation:.0e}{right}"
    return f"| `{entry.name}` | {1e3 * math.exp(centre):.1f}{span} | {entry.peak_bytes / 1e6:,.0f} | {error} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", default="")
    parser.add_argument("--dtypes", default="tf32,bfloat16,float32")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", default="", help="the precision in which the largest batch is looked for")
    chosen = parser.parse_args()
    installed = [name for name in installed_losses(chosen.device) if name not in LEFT_OUT]
    losses = chosen.losses.split(",") if chosen.losses else installed
    machine = describe()
    print(f"{', '.join(gpu.name for gpu in machine.gpus) or machine.cpu}; {machine.packages}", flush=True)
    batches = spread(make_batches(load_shapes(), batch_size=chosen.batch_size), BATCHES)
    last: list[Entry] = []
    for dtype in chosen.dtypes.split(","):
        begun_s = time.monotonic()
        checked = {name: entry_of(name, dtype, chosen.device) for name in losses}
        entries = [entry for entry in checked.values() if isinstance(entry, Entry)]
        time_in_turns(entries, batches, chosen.rounds, dtype, chosen.device)
        print(f"\n{dtype}, {BATCHES} batches of {chosen.batch_size}, {chosen.rounds} rounds in turns\n")
        print("| loss | step, ms | peak over inputs, MB | max relative error |")
        print("|---|---|---|---|")
        for entry in sorted(entries, key=lambda entry: entry.rounds_s or [math.inf]):
            print(row_of(entry, dtype))
        for name, problem in checked.items():
            if isinstance(problem, str):
                print(f"| `{name}` | {problem} | | |")
        print(f"\n{time.monotonic() - begun_s:.0f} s", flush=True)
        last = entries if dtype == chosen.largest else last
    print(f"\n| loss in {chosen.largest} | largest batch (first that failed) |\n|---|---|" if last else "")
    torch.set_float32_matmul_precision("high" if chosen.largest == "tf32" else "highest")
    for entry in last:
        if not entry.problem:
            print(f"| `{entry.name}` | {find_largest(entry, batches, chosen.device)} |", flush=True)


if __name__ == "__main__":
    main()
