"""How transducer losses grow with vocabulary and batch size on a GPU, and the largest batch that fits. Prints Markdown.

    python benchmarks/fused_growth.py [--losses fused,torchaudio,warprnnt-numba] [--dtype bfloat16] [--device cuda]
                                      [--vocabularies 500,1000,4096,16384] [--batch-sizes 30,60,120,240] [--most 7680]

LibriSpeech's shapes, width 512. Each loss runs in its own process, which is restarted after a failure; the time is the
median of 5 steps, the peak that of the allocator, excluding inputs. The largest batch that completes one step is found
by doubling up to `--most`, then by halving the gap three times.
"""

from __future__ import annotations

import argparse
from statistics import median

from stopwav.measure.machine import describe
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.speech.batches import make_batches
from stopwav.speech.shapes import load_shapes
from stopwav.studies.loss.loss_step import LossRunner, LossSetup, LossStep
from stopwav.studies.loss.spec import LOSS_PLAN

WIDTH = 512
STEPS = 5
HALVINGS = 3
TIME_LIMIT_S = 120.0


class Probe:
    """A loss inside its process."""

    def __init__(self, loss: str, dtype: str, device: str) -> None:
        self._loss, self._dtype, self._device = loss, dtype, device

    def once(self, batch_size: int, vocab: int) -> None:
        """Run one step; the caller learns whether it completes."""
        self._call(batch_size, vocab)()

    def step(self, batch_size: int, vocab: int) -> tuple[float, int]:
        """The seconds of a step, and its peak memory in bytes, excluding inputs."""
        from stopwav.measure.clock import KernelClock
        from stopwav.measure.memory import measure_cuda_peak

        call = self._call(batch_size, vocab)
        # Once untimed: matrix products allocate memory that they keep until the process ends.
        call()
        call.drop_gradients()
        memory = measure_cuda_peak(call, self._device)
        peak = memory.peak.allocated_bytes - memory.baseline.allocated_bytes
        clock = KernelClock(self._device)
        return median(clock.time(call).device_s or 0.0 for _ in range(STEPS)), peak

    def _call(self, batch_size: int, vocab: int) -> LossStep:
        setup = LossSetup(self._loss, vocab, WIDTH, 0, self._dtype, self._device)
        shapes = make_batches(load_shapes(), batch_size=batch_size)[0]
        return LossRunner(setup, LOSS_PLAN).step(shapes, seed=0)


class LossProcess:
    """A loss and its process, which starts on the first call and again after each failure."""

    def __init__(self, name: str, dtype: str, device: str) -> None:
        self.name, self._arguments = name, (name, dtype, device)
        self._process: FreshProcess | None = None

    def ask(self, method: str, batch_size: int, vocab: int) -> Outcome:
        """The outcome of a method of the probe."""
        outcome = Outcome("ok")
        if self._process is None:
            self._process = FreshProcess(Probe, *self._arguments)
            outcome = self._process.start(TIME_LIMIT_S)
        if outcome.ok:
            outcome = self._process.call(method, batch_size, vocab, time_limit_s=TIME_LIMIT_S)
        if not outcome.ok:
            self.close()
        return outcome

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


def outcome_text(outcome: Outcome) -> str:
    """A cell of the table."""
    if not outcome.ok:
        return outcome.status if outcome.status in ("oom", "timeout") else f"{outcome.status}: {outcome.message[:100]}"
    seconds, peak = outcome.value
    return f"{1e3 * seconds:.1f} ms, {peak / 1e9:.2f} GB"


def largest(loss: LossProcess, start: int, limit: int, vocab: int) -> str:
    """The largest batch that fits, and how a larger one failed."""
    fits, fails, why = start, 0, ""
    while not fails and fits < limit:
        outcome = loss.ask("once", 2 * fits, vocab)
        if outcome.ok:
            fits *= 2
        else:
            fails, why = 2 * fits, outcome_text(outcome)
    for _ in range(HALVINGS if fails else 0):
        middle = (fits + fails) // 2
        if middle == fits:
            break
        outcome = loss.ask("once", middle, vocab)
        if outcome.ok:
            fits = middle
        else:
            fails, why = middle, outcome_text(outcome)
    return f"{fits}; {fails} does not: {why}" if fails else f"{fits}; no larger one was tried"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", default="fused,torchaudio,warprnnt-numba")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocabularies", default="500,1000,4096,16384")
    parser.add_argument("--batch-sizes", default="30,60,120,240")
    parser.add_argument("--most", type=int, default=7680)
    chosen = parser.parse_args()
    vocabularies = [int(text) for text in chosen.vocabularies.split(",")]
    sizes = [int(text) for text in chosen.batch_sizes.split(",")]
    points = [*((sizes[0], vocab) for vocab in vocabularies), *((size, vocabularies[0]) for size in sizes[1:])]
    machine = describe()
    print(f"{', '.join(gpu.name for gpu in machine.gpus)}; {chosen.dtype}\n")
    print("| loss | batch | symbols | step and peak memory, excluding inputs |\n|---|---|---|---|")
    for name in chosen.losses.split(","):
        loss = LossProcess(name, chosen.dtype, chosen.device)
        fits = 0
        for size, vocab in points:
            outcome = loss.ask("step", size, vocab)
            print(f"| {name} | {size} | {vocab:,} | {outcome_text(outcome)} |", flush=True)
            if outcome.ok and vocab == vocabularies[0]:
                fits = max(fits, size)
        best = largest(loss, fits, chosen.most, vocabularies[0]) if fits else "none of these"
        print(f"| {name} | largest that fits | {vocabularies[0]:,} | {best} |", flush=True)
        loss.close()


if __name__ == "__main__":
    main()
