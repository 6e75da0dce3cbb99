"""The fused transducer loss: checked against the oracle, then timed on LibriSpeech's shapes.

    python benchmarks/fused_loss.py [--device cpu|cuda] [--batches 5] [--only check,times,stages,growth] [--threads N]

On a GPU: batch 30, and batches sorted under 10,000 frames, in float32, TF32 and bf16; the time of each stage beside its
floor; growth over vocabulary and batch size. On a CPU: batch 8 against the same loss on logits that are all there.
Prints Markdown. Width 512, 500 symbols, tanh; inputs are made outside of what is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from fused_stages import ceilings, device_s, floors_s, forget, peak_over_inputs_bytes, stage_times_s
from loss_batches import WIDTH, Batch, make, random_pairs, shapes, sorted_pairs
from torch.nn import functional

from stopwav.losses import oracle_loss, plain_loss, transducer_loss
from stopwav.losses.oracle import oracle_logits
from stopwav.losses.precision import DTYPES, Arithmetic, Precision
from stopwav.measure.machine import describe
from stopwav.measure.memory import measure_host_peak
from stopwav.models.weights import keep_off_tiles

SYMBOLS = 500
GPU_PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")
VOCABULARIES = (500, 1000, 4096, 16384)
BATCH_SIZES = (30, 60, 120, 240)
# Where sorted batches are taken from: over the whole range of lengths, not from one end.
SORTED_PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
CPU_BATCH = 8
MB = 1e6

Loss = Callable[[Batch], torch.Tensor]


def fused(precision: Precision | None = None) -> Loss:
    """The fused loss in a precision, summed."""

    def loss(batch: Batch) -> torch.Tensor:
        encodings, predictions, weight, bias = batch.inputs
        return transducer_loss(
            *(encodings, predictions, weight, bias),
            *(batch.targets, batch.frames, batch.labels),
            reduction="sum",
            precision=precision,
        )

    return loss


def materialised(batch: Batch) -> torch.Tensor:
    """The same loss with all logits at once, in plain PyTorch, summed."""
    encodings, predictions, weight, bias = batch.inputs
    logits = functional.linear(torch.tanh(encodings[:, :, None] + predictions[:, None]), weight, bias)
    return plain_loss(logits, batch.targets, batch.frames, batch.labels, 0, "sum")


def step_of(loss: Loss, batch: Batch) -> Callable[[], object]:
    """Forward and backward of a batch, with fresh gradients."""

    def step() -> None:
        forget(batch.inputs)
        loss(batch).backward()

    return step


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table and an empty line."""
    print(f"| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def check(device: str, precisions: Sequence[Precision]) -> None:
    """How far value and gradients are from the oracle, in every precision."""
    batch = make([(31, 11), (1, 5), (17, 0), (24, 9)], 43, device, width=60)
    encodings, predictions, weight, bias = (one.detach().cpu().double().requires_grad_() for one in batch.inputs)
    logits = oracle_logits(encodings, predictions, weight, bias)
    truth = oracle_loss(logits, batch.targets, batch.frames, batch.labels).sum()
    gradients = torch.autograd.grad(truth, (encodings, predictions, weight, bias))
    rows = []
    for precision in precisions:
        dtype = torch.float64 if precision == "float64" else torch.float32
        inputs = tuple(one.detach().to(dtype).requires_grad_() for one in batch.inputs)
        loss = fused(precision)(Batch(inputs, batch.targets, batch.frames, batch.labels))
        found = torch.autograd.grad(loss, inputs)
        pairs = [(loss.detach(), truth.detach()), *zip(found, gradients, strict=True)]
        rows.append([precision, *(f"{float((a.cpu().double() - b).norm() / b.norm()):.1e}" for a, b in pairs)])
    print("Distance from the oracle, relative\n")
    table(("products in", "value", "encoder", "predictor", "weight", "bias"), rows)


def layouts(batches: int) -> dict[str, list[list[tuple[int, int]]]]:
    """The shapes of the batches, by the name of how they are put together."""
    places = [SORTED_PLACES[k % len(SORTED_PLACES)] for k in range(batches)]
    return {
        "batch 30": [random_pairs(seed, 30) for seed in range(batches)],
        "sorted, 10,000 frames": [sorted_pairs(seed, place) for seed, place in enumerate(places)],
    }


def times(batches: int) -> None:
    """Forward, step and peak in each precision, as means over batches of medians."""
    rows = []
    for name, every in layouts(batches).items():
        for precision in GPU_PRECISIONS:
            forward_s, step_s, wall_s, peak, cells, padded = 0.0, 0.0, 0.0, 0, 0, 0
            for seed, pairs in enumerate(every):
                batch = make(pairs, SYMBOLS, "cuda", seed)
                loss = fused(precision)
                step = step_of(loss, batch)
                step_s += device_s(step) / batches
                forward_s += device_s(lambda loss=loss, batch=batch: loss(batch)) / batches  # type: ignore[misc]
                wall_s += wall_time_s(step) / batches
                forget(batch.inputs)
                peak = max(peak, peak_over_inputs_bytes(step))
                cells, padded = cells + batch.cells, padded + batch.padded_cells
            measured = [f"{1e3 * one:.2f}" for one in (forward_s, step_s - forward_s, step_s, wall_s)]
            rows.append(
                [name, precision, *measured, f"{peak / MB:.0f}", f"{cells // batches:,}", f"{padded / cells:.2f}"]
            )
    head = ("ms forward", "backward", "step", "step, wall", "peak over inputs, MB", "cells", "padded/real")
    table(("batches", "products in", *head), rows)


def wall_time_s(step: Callable[[], object], values: int = 10) -> float:
    """The mean wall time of steps that follow each other: more than the device's where the host holds it up."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(values):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / values


def stages() -> None:
    """Where the time goes at batch 30, and the floor of each stage."""
    batch = make(random_pairs(0, 30), SYMBOLS, "cuda")
    for precision in GPU_PRECISIONS:
        dtype = DTYPES[precision]
        with Arithmetic(dtype, precision == "tf32" if dtype == torch.float32 else None).products():
            ceiling = ceilings(dtype)
        floors = floors_s(batch.cells, WIDTH, SYMBOLS, dtype, ceiling)
        found = stage_times_s(step_of(fused(precision), batch))
        print(
            f"{precision}: ceilings {ceiling.bytes_per_s / 1e12:.2f} TB/s and {ceiling.operations_per_s / 1e12:.0f} "
            f"TFLOP/s; {batch.cells:,} cells\n"
        )
        rows = [
            [
                name,
                f"{1e3 * taken:.3f}",
                f"{1e3 * floors[name]:.3f}" if name in floors else "",
                share(taken, floors, name),
            ]
            for name, taken in sorted(found.items(), key=lambda item: -item[1])
        ]
        rows.append(["all", f"{1e3 * sum(found.values()):.3f}", f"{1e3 * sum(floors.values()):.3f}", ""])
        table(("stage", "ms a step", "floor", "times the floor"), rows)


def share(taken_s: float, floors: dict[str, float], name: str) -> str:
    """How many times its floor a stage takes."""
    return f"{taken_s / floors[name]:.1f}" if name in floors else ""


def growth() -> None:
    """Time and peak over vocabulary and batch size, in bf16."""
    rows = []
    for size, symbols in [*((30, one) for one in VOCABULARIES), *((one, SYMBOLS) for one in BATCH_SIZES[1:])]:
        batch = make(random_pairs(1, size), symbols, "cuda")
        step = step_of(fused("bfloat16"), batch)
        step_s = device_s(step, values=5)
        forget(batch.inputs)
        peak = peak_over_inputs_bytes(step)
        logits = batch.padded_cells * symbols * 4
        row = (step_s * 1e3, step_s / batch.cells * 1e9)
        rows.append(
            [str(size), f"{symbols:,}", *(f"{one:.2f}" for one in row), f"{peak / MB:.0f}", f"{logits / MB:,.0f}"]
        )
    head = ("batch", "symbols", "ms a step, bf16", "ns a cell", "peak over inputs, MB", "padded float32 logits, MB")
    table(head, rows)


def on_cpu(batches: int) -> None:
    """Time and memory at batch 8 beside the loss on materialised logits; both take turns on the same batches."""
    losses: dict[str, Loss] = {"fused": fused(), "plain, all logits": materialised}
    taken: dict[str, list[float]] = {name: [] for name in losses}
    peaks: dict[str, int] = dict.fromkeys(losses, 0)
    cells, padded = 0, 0
    for seed in range(batches):
        batch = make(random_pairs(seed, CPU_BATCH), SYMBOLS, "cpu", seed)
        cells, padded = cells + batch.cells, padded + batch.padded_cells
        for name, loss in losses.items():
            step = step_of(loss, batch)
            forget(batch.inputs)
            # The pass that memory is taken from warms up, too.
            peaks[name] = max(peaks[name], measure_host_peak(step).over_baseline_bytes)
            begin = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - begin)
    base = taken["plain, all logits"]
    rows = [
        [
            name,
            f"{sum(values) / batches:.2f}",
            f"{sum(base) / sum(values):.2f}×",
            f"{peaks[name] / MB:,.0f}",
            f"{peaks[name] / peaks['plain, all logits']:.3f}",
        ]
        for name, values in taken.items()
    ]
    print(f"Batch {CPU_BATCH}, {cells // batches:,} cells, padded/real {padded / cells:.2f}, {batches} batches\n")
    table(("loss", "s a step", "gain", "peak over inputs, MB", "share of it"), rows)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--only", default="check,times,stages,growth")
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def main() -> None:
    """Print the tables."""
    chosen = options()
    keep_off_tiles()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    machine = describe()
    where = torch.cuda.get_device_name() if chosen.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{machine.cpu}, {machine.logical_cores} cores, {where}; torch {torch.__version__}; {shapes(0)[2]}\n")
    parts = chosen.only.split(",")
    if "check" in parts:
        check(chosen.device, ("float64", *GPU_PRECISIONS, "float16"))
    if chosen.device == "cpu":
        if "times" in parts:
            on_cpu(chosen.batches)
        return
    if "times" in parts:
        times(chosen.batches)
    if "stages" in parts:
        stages()
    if "growth" in parts:
        growth()


if __name__ == "__main__":
    main()
