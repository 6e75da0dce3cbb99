"""The fused transducer loss: checked against the oracle, then timed on LibriSpeech's shapes.

    python benchmarks/fused_loss.py [--device cpu|cuda] [--batches 5] [--rounds 3] [--only check,times,stages]

On a GPU: batch 30, and batches sorted under 10,000 frames, in float32, TF32 and bf16; the time of each stage and its
lower bound. fused_growth.py varies vocabulary and batch size. On a CPU: batch 8 in `stopwav loss`, with the same loss
on materialised logits, and k2's or fast_rnnt's if installed. Prints Markdown. Width 512, 500 symbols, tanh; making the
inputs is not timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence

import torch
from fused_stages import ceilings, device_s, floors_s, peak_over_inputs_bytes, stage_times_s

from stopwav.losses import oracle_loss
from stopwav.losses.joiner_batch import JoinerBatch, make_joiner_batch
from stopwav.losses.oracle import oracle_logits
from stopwav.losses.precision import DTYPES, Arithmetic, Precision
from stopwav.losses.registry import find_loss
from stopwav.measure.machine import describe
from stopwav.models.checkpoint import disable_amx_in_vm
from stopwav.record import Result
from stopwav.speech.batches import SORTED, Batch, make_batches, spread
from stopwav.speech.shapes import load_shapes
from stopwav.studies.loss.loss_step import LossStep
from stopwav.studies.loss.run import loss as measure
from stopwav.studies.study import results

WIDTH, SYMBOLS = 512, 500
GPU_PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")
CPU_BATCH, CPU_LOSSES, CPU_BASE = 8, ("fused", "torch", "k2"), "torch"
MB = 1e6

FUSED = find_loss("fused")


def inputs_of(shapes: Batch, precision: Precision, symbols: int = SYMBOLS, seed: int = 0) -> JoinerBatch:
    """The inputs of a batch on the GPU."""
    return make_joiner_batch(
        shapes.frames, shapes.tokens, vocab=symbols, dim=WIDTH, precision=precision, device="cuda", seed=seed
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table and an empty line."""
    print(f"| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def check(device: str, precisions: Sequence[Precision]) -> None:
    """Print the errors of value and gradients against the oracle, in every precision."""

    def batch_in(precision: Precision, device: str) -> JoinerBatch:
        return make_joiner_batch((31, 1, 17, 24), (11, 5, 0, 9), vocab=43, dim=60, precision=precision, device=device)

    def with_gradients(value: torch.Tensor, batch: JoinerBatch) -> list[torch.Tensor]:
        tensors = (value.detach(), *torch.autograd.grad(value, list(batch.leaves.values())))
        return [tensor.cpu().double() for tensor in tensors]

    exact = batch_in("float64", "cpu")
    logits = oracle_logits(*exact.leaves.values())
    lengths = (exact.frame_lengths, exact.target_lengths)
    truth = with_gradients(oracle_loss(logits, exact.targets, *lengths).sum(), exact)
    rows = []
    for precision in precisions:
        batch = batch_in(precision, device)
        pairs = zip(with_gradients(FUSED.losses(batch).sum(), batch), truth, strict=True)
        rows.append([precision, *(f"{float((value - true).norm() / true.norm()):.1e}" for value, true in pairs)])
    print("Relative error against the oracle\n")
    table(("products in", "value", "encoder", "predictor", "weight", "bias"), rows)


def layouts(batches: int) -> dict[str, list[Batch]]:
    """The shapes of the batches by layout; sorted batches are spread over the whole range of lengths."""
    shapes = load_shapes()
    return {
        "batch 30": spread(make_batches(shapes), batches),
        "sorted, 10,000 frames": spread(make_batches(shapes, max_frames=10_000, order=SORTED), batches),
    }


def times(batches: int) -> None:
    """Print forward, step and peak in each precision: means over batches of medians."""
    rows = []
    for name, layout in layouts(batches).items():
        for precision in GPU_PRECISIONS:
            forward_s, step_s, wall_s, peak = 0.0, 0.0, 0.0, 0
            for seed, shapes in enumerate(layout):
                batch = inputs_of(shapes, precision, seed=seed)
                step = LossStep(FUSED, batch)
                step_s += device_s(step) / batches
                forward_s += device_s(lambda batch=batch: FUSED.losses(batch)) / batches  # type: ignore[misc]
                wall_s += wall_time_s(step) / batches
                # The pass that measures memory allocates its gradients.
                step.drop_gradients()
                peak = max(peak, peak_over_inputs_bytes(step))
            cells, padded = sum(shapes.cells for shapes in layout), sum(shapes.padded_cells for shapes in layout)
            measured = [f"{1e3 * seconds:.2f}" for seconds in (forward_s, step_s - forward_s, step_s, wall_s)]
            rows.append(
                [name, precision, *measured, f"{peak / MB:.0f}", f"{cells // batches:,}", f"{padded / cells:.2f}"]
            )
    head = ("ms forward", "backward", "step", "step, wall", "peak excluding inputs, MB", "cells", "padded/real")
    table(("batches", "products in", *head), rows)


def wall_time_s(step: Callable[[], object], values: int = 10) -> float:
    """The mean wall time of consecutive steps: more than the device's time if the host is the bottleneck."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(values):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / values


def stages() -> None:
    """Print the time of each stage at batch 30, and its lower bound."""
    shapes = make_batches(load_shapes())[0]
    for precision in GPU_PRECISIONS:
        dtype = DTYPES[precision]
        with Arithmetic(dtype, precision == "tf32" if dtype == torch.float32 else None).products():
            ceiling = ceilings(dtype)
        tile_rate = ceiling.operations_per_s
        if precision == "float32":
            with Arithmetic(dtype, True).products():
                tile_rate = ceilings(dtype).operations_per_s / 3
        floors = floors_s(shapes.cells, WIDTH, SYMBOLS, dtype, ceiling, tile_rate)
        times = stage_times_s(LossStep(FUSED, inputs_of(shapes, precision)))
        print(
            f"{precision}: at best {ceiling.bytes_per_s / 1e12:.2f} TB/s and {ceiling.operations_per_s / 1e12:.0f} "
            f"TFLOP/s; {shapes.cells:,} cells\n"
        )
        rows = [
            [
                name,
                f"{1e3 * seconds:.3f}",
                f"{1e3 * floors[name]:.3f}" if name in floors else "",
                multiple(seconds, floors, name),
            ]
            for name, seconds in sorted(times.items(), key=lambda item: -item[1])
        ]
        rows.append(["all", f"{1e3 * sum(times.values()):.3f}", f"{1e3 * sum(floors.values()):.3f}", ""])
        table(("stage", "ms per step", "lower bound", "multiple of it"), rows)


def multiple(time_s: float, floors: dict[str, float], name: str) -> str:
    """The time of a stage as a multiple of its lower bound."""
    return f"{time_s / floors[name]:.1f}" if name in floors else ""


def on_cpu(batches: int, rounds: int) -> None:
    """Print time and memory at batch 8, against the loss on materialised logits; losses take turns round by round."""
    with tempfile.TemporaryDirectory() as folder:
        record = measure(CPU_LOSSES, batch_size=CPU_BATCH, batches=batches, rounds=rounds, save=folder)
        by_loss = {str(result.params["loss"]): result for result in results(record)}
    padding = 1 / (by_loss[CPU_BASE].metrics["padding_efficiency"].value or 1)
    print(f"Batch {CPU_BATCH}, padded/real {padding:.2f}, {batches} batches, {rounds} rounds\n")
    head = (
        "loss",
        "s per step",
        f"speed-up over {CPU_BASE}",
        "rank",
        "peak excluding inputs, MB",
        f"ratio to {CPU_BASE}",
    )
    table(head, [cpu_row(name, result, by_loss[CPU_BASE]) for name, result in by_loss.items()])


def cpu_row(name: str, result: Result, base: Result) -> list[str]:
    """The row of a loss on the CPU, compared with that on materialised logits."""
    if not result.metrics:
        return [name, result.status, "", "", "", ""]
    step, peak = result.metrics["step_time"], result.metrics["peak_host_over_inputs_bytes"].value or 0
    base_s, base_peak = base.metrics["step_time"].value or 0, base.metrics["peak_host_over_inputs_bytes"].value or 1
    rank = result.metrics["rank"].value
    interval = "" if step.low is None or step.high is None else f" [{step.low:.2f}–{step.high:.2f}]"
    return [
        f"{name} ({result.params['version']})",
        "–" if step.value is None else f"{step.value:.2f}{interval}",
        "–" if step.value is None else f"{base_s / step.value:.2f}×",
        "–" if rank is None else f"{rank:.0f}",
        f"{peak / MB:,.0f}",
        f"{peak / base_peak:.3f}",
    ]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="on a CPU, fresh processes per loss")
    parser.add_argument("--only", default="check,times,stages")
    return parser.parse_args()


def main() -> None:
    """Print the tables."""
    chosen = options()
    disable_amx_in_vm()
    machine = describe()
    where = torch.cuda.get_device_name() if chosen.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{machine.cpu}, {machine.logical_cores} cores, {where}; torch {torch.__version__}\n")
    parts = chosen.only.split(",")
    if "check" in parts:
        check(chosen.device, ("float64", *GPU_PRECISIONS, "float16"))
    if chosen.device == "cpu":
        if "times" in parts:
            on_cpu(chosen.batches, chosen.rounds)
        return
    if "times" in parts:
        times(chosen.batches)
    if "stages" in parts:
        stages()


if __name__ == "__main__":
    main()
