"""The time of each stage of a fused loss on a GPU, and its lower bound on the device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import torch

STAGES = {
    "pack_hidden": "activations",
    "score_cells": "scores",
    "logit_gradient": "gradient of logits",
    "add_up": "sums to inputs",
    "multiply": "matrix products",
    "sum_paths": "lattice",
    "posteriors": "lattice",
    "map_cells": "map of cells",
}
PRODUCT_MARKS = ("gemm", "cutlass", "nvjet", "xmma", "splitk", "cublas")


@dataclass(frozen=True)
class Ceilings:
    """The measured limits of the device: bytes per second of a copy, operations per second of a large product."""

    bytes_per_s: float
    operations_per_s: float


def device_s(call: Callable[[], object], values: int = 10) -> float:
    """The median device time of a call after warm-up."""
    for _ in range(3):
        call()
    times = []
    for _ in range(values):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) / 1e3)
    return sorted(times)[len(times) // 2]


def ceilings(dtype: torch.dtype) -> Ceilings:
    """Measure the limits in a type; float32 as PyTorch is set."""
    source = torch.empty(2**29, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy_s = device_s(lambda: target.copy_(source))
    size = 8192
    left = torch.randn(size, size, device="cuda").to(dtype)
    product_s = device_s(lambda: left @ left)
    return Ceilings(2 * source.numel() / copy_s, 2 * size**3 / product_s)


def stage_of(kernel: str) -> str:
    """The stage that a kernel belongs to, by its name."""
    for name, stage in STAGES.items():
        if name in kernel:
            return stage
    return "matrix products" if any(mark in kernel.lower() for mark in PRODUCT_MARKS) else "other"


def stage_times_s(step: Callable[[], object], steps: int = 5) -> dict[str, float]:
    """Device seconds of each stage in one step, from a separate profile."""
    step()
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    totals: dict[str, float] = defaultdict(float)
    for event in profile.events():
        if str(event.device_type).endswith("CUDA"):
            totals[stage_of(event.name)] += event.device_time_total / 1e6 / steps
    return dict(totals)


def floors_s(
    cells: int, width: int, symbols: int, dtype: torch.dtype, ceiling: Ceilings, tile_operations_per_s: float
) -> dict[str, float]:
    """The lower bound of each stage in seconds: its bytes or its operations over the limit of the device.

    `tile_operations_per_s` is the limit of the loss's own kernels: in float32 they multiply by three products in TF32.
    Width and vocabulary are rounded up to multiples of 16. The lattice has no such bound.
    """
    width, symbols = -(-width // 16) * 16, -(-symbols // 16) * 16
    hidden_s = cells * width * dtype.itemsize / ceiling.bytes_per_s
    logits_s = cells * symbols * dtype.itemsize / ceiling.bytes_per_s
    operations, moved_s = 2 * cells * width * symbols, hidden_s + logits_s
    product_s, tile_s = operations / ceiling.operations_per_s, operations / tile_operations_per_s
    return {
        "activations": 2 * hidden_s,
        # Logits are multiplied where they are scored and differentiated: only their gradient is written.
        "scores": max(tile_s, hidden_s),
        "gradient of logits": max(tile_s, moved_s),
        "matrix products": max(product_s, moved_s) + max(tile_s, moved_s),
        "sums to inputs": hidden_s,
    }


def peak_over_inputs_bytes(step: Callable[[], object]) -> int:
    """The allocator's peak in one step, excluding what was allocated before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
