"""Every transducer loss that is installed, in several precisions: right or wrong, time, memory, largest batch.

    python benchmarks/loss_arena.py [--losses fused,k2,…] [--dtypes float32,tf32,bfloat16] [--device cuda]
                                    [--batch-size 30] [--batches 5] [--rounds 2] [--no-largest] [--save FOLDER]

For each precision it is `stopwav loss LOSSES --device cuda --dtype … --batch-size 30 --batches 5 --rounds 2`, whose run
is saved, and then the largest batch, faster than `--largest-batch` finds it: its peak is predicted from the measured
one, and tried and bisected, to one part in twenty, in a process that goes on while batches fit. Prints Markdown, and
the seconds that each part took. LibriSpeech's shapes, outputs of 512, 500 symbols.
"""

from __future__ import annotations

import argparse
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stopwav.losses.implementation import Needs
from stopwav.losses.registry import BUILT_IN, installed_losses, split_name
from stopwav.measure.machine import describe
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.record import Record, Result
from stopwav.speech.batches import Batch
from stopwav.speech.shapes import load_shapes
from stopwav.studies.loss.batch_sets import batch_sets
from stopwav.studies.loss.document import peak_metric, rank_text
from stopwav.studies.loss.largest_batch import nested_batch
from stopwav.studies.loss.loss_step import LossRunner, LossSetup
from stopwav.studies.loss.run import loss as measure
from stopwav.studies.loss.spec import DIM, LOSS_PLAN, VOCAB
from stopwav.studies.study import results

# stopwav's other own loss takes seconds where the others take milliseconds.
LEFT_OUT = ("torch",)
# What a device's memory holds besides a step: PyTorch's context and what matrix products keep.
RESERVED_BYTES = 2e9
# Batches are tried until the smallest that failed is larger by this factor at most.
CLOSE = 1.05
MOST = 1024
TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class Memory:
    """What a loss takes on a device: the peak of a measured batch, and the batch."""

    needs: Needs
    peak_bytes: float
    measured: Batch

    def predicted_bytes(self, batch: Batch) -> float:
        """The peak of another batch: it grows with the cells whose logits a loss holds, or with frames if with none."""
        return self.peak_bytes * self._size(batch) / self._size(self.measured)

    def _size(self, batch: Batch) -> int:
        if self.needs.logits == "joiner":
            return len(batch) * max(batch.frames)
        return batch.cells if self.needs.logits == "packed" else batch.padded_cells

    def logits(self, batch: Batch) -> int:
        """The logits that the loss holds for a batch."""
        return VOCAB * self._size(batch)


class Tries:
    """A loss in a process that goes on while batches fit, and starts again after one that did not."""

    def __init__(self, loss: str, dtype: str, device: str) -> None:
        self._arguments = (LossSetup(loss, VOCAB, DIM, 0, dtype, device), LOSS_PLAN)
        self._process: FreshProcess | None = None

    def fits(self, batch: Batch) -> Outcome:
        """How a step on a batch ends."""
        outcome = Outcome("ok")
        if self._process is None:
            self._process = FreshProcess(LossRunner, *self._arguments)
            outcome = self._process.start(TIME_LIMIT_S)
        if outcome.ok:
            outcome = self._process.call("run_once", batch, 0, time_limit_s=TIME_LIMIT_S)
        if not outcome.ok:
            self.close()
        return outcome

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


def largest(memory: Memory, tries: Tries, utterances: Batch, free_bytes: float) -> str:
    """The largest batch of the first of these utterances that completed, and how the smallest that did not ended."""
    most = len(utterances)

    def most_within(limit: float, size_of: Callable[[Batch], float]) -> int:
        return bisect_right(range(1, most + 1), limit, key=lambda size: size_of(_first(utterances, size)))

    limit = memory.needs.max_logits
    allowed = most if limit is None else most_within(limit, memory.logits)
    size = min(allowed, max(1, most_within(free_bytes, memory.predicted_bytes)))
    fits, fails, why = 0, allowed + 1, "not tried" if allowed == most else "refused: too many logits"
    while fits < size < fails and not (fits and fails <= CLOSE * fits):
        outcome = tries.fits(_first(utterances, size))
        if outcome.ok:
            fits = size
            size = min(fails - 1, max(fits + 1, round(CLOSE * fits))) if fails > allowed else (fits + fails) // 2
        else:
            fails, why = size, outcome.status if outcome.status != "error" else outcome.message[:80]
            size = (fits + fails) // 2 if fits else round(fails / CLOSE)
    tries.close()
    return f"{fits} ({fails}: {why})"


def _first(utterances: Batch, size: int) -> Batch:
    return Batch(utterances.frames[:size], utterances.tokens[:size])


def rows_of(found: Sequence[Result], largest_batches: dict[str, str]) -> list[str]:
    """A row for each loss: the fastest first."""

    def order(result: Result) -> float:
        return (result.metrics["step_time"].value or 0.0) if result.metrics else float("inf")

    return [_row(result, largest_batches, peak_metric(found)) for result in sorted(found, key=order)]


def _row(result: Result, largest_batches: dict[str, str], peak: str) -> str:
    name, metrics = str(result.params["loss"]), result.metrics
    if not metrics:
        return f"| `{name}` | {result.status} | | | | |"
    step, errors = metrics["step_time"], [metrics[key].value for key in ("value_deviation", "gradient_deviation")]
    span = "" if step.low is None or step.high is None else f" [{1e3 * step.low:.1f}–{1e3 * step.high:.1f}]"
    cells = [
        f"`{name}`",
        rank_text(result),
        f"{1e3 * (step.value or 0.0):.1f}{span}",
        f"{(metrics[peak].value or 0.0) / 1e6:,.0f}",
        "–" if None in errors else f"{max(error for error in errors if error is not None):.0e}",
        largest_batches.get(name, ""),
    ]
    return f"| {' | '.join(cells)} |"


def memories(record: Record, found: Sequence[Result]) -> dict[str, Memory]:
    """What each measured loss took on its largest batch."""
    needs = {listed.name: listed.installed_needs for listed in BUILT_IN}
    (batches,) = (batch_set.batches for batch_set in batch_sets(record.header))
    by_loss = {}
    for result in found:
        name = split_name(str(result.params["loss"]))[0]
        peak = result.metrics[peak_metric(found)].value if result.metrics else None
        if name in needs and peak is not None:
            widest = max(batches, key=_packed_cells if needs[name].logits == "packed" else _padded_cells)
            by_loss[str(result.params["loss"])] = Memory(needs[name], peak, widest)
    return by_loss


def _packed_cells(batch: Batch) -> int:
    return batch.cells


def _padded_cells(batch: Batch) -> int:
    return batch.padded_cells


def free_memory_bytes(device: str) -> float:
    """The memory that a step may take."""
    if device == "cpu":
        import psutil

        return float(psutil.virtual_memory().available) / 2
    sizes = [gpu.memory_bytes for gpu in describe().gpus]
    return float(sizes[0] or 0) - RESERVED_BYTES


def arena(chosen: argparse.Namespace, dtype: str, losses: Sequence[str]) -> None:
    """Print the table of a precision."""
    begun_s = time.monotonic()
    sizes = {"batch_size": [chosen.batch_size], "batches": chosen.batches, "rounds": chosen.rounds}
    record = measure(list(losses), device=chosen.device, dtype=dtype, save=chosen.save, **sizes)
    found, measured_s = results(record), time.monotonic() - begun_s
    shapes, largest_batches = load_shapes(), {}
    utterances = nested_batch(shapes, min(chosen.most, len(shapes)), 0)
    for name, memory in memories(record, found).items() if chosen.largest else ():
        tries = Tries(name, dtype, chosen.device)
        largest_batches[name] = largest(memory, tries, utterances, free_memory_bytes(chosen.device))
    print(f"\n{dtype}, {chosen.batches} batches of {chosen.batch_size}, {chosen.rounds} rounds: {record.path}\n")
    print("| loss | rank | step, ms | peak over inputs, MB | max relative error | largest batch (first that failed) |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows_of(found, largest_batches)), flush=True)
    for result in found:
        told = [warning for warning in result.warnings if warning.code in ("corrected", "precision-changed")]
        for warning in (*told, *(warning for warning in result.warnings if warning.code.startswith("loss-"))):
            print(f"\n! {result.params['loss']}: {warning.code}: {warning.message}")
    rest_s = time.monotonic() - begun_s - measured_s
    print(f"\n{measured_s:.0f} s for check, time and memory, {rest_s:.0f} s for the largest batches")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", default="")
    parser.add_argument("--dtypes", default="float32,tf32,bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=30)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--no-largest", dest="largest", action="store_false")
    parser.add_argument("--save", default="stopwav-runs")
    chosen = parser.parse_args()
    installed = [name for name in installed_losses(chosen.device) if name not in LEFT_OUT]
    losses = chosen.losses.split(",") if chosen.losses else installed
    machine = describe()
    print(f"{', '.join(gpu.name for gpu in machine.gpus) or machine.cpu}; {machine.packages}", flush=True)
    for dtype in chosen.dtypes.split(","):
        arena(chosen, dtype, losses)


if __name__ == "__main__":
    main()
