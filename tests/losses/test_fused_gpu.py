"""The fused loss as on a GPU: its kernels on one, or interpreted or compiled as for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fused_steps import HAS_CUDA, SETTINGS, check_shape, interpreted, shapes, step, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import Batch, draw, oracle, relative_error

pytest.importorskip("triton")


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")
@settings(max_examples=40, deadline=None)
@given(shape=shapes(12, 6, 4), rule=SETTINGS, chunk_cells=st.sampled_from([None, 1, 17, 64]))
def test_any_shape_is_exact_on_a_gpu(shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    check_shape(("triton", "cuda"), shape, rule, chunk_cells)


@interpreted
def test_padded_cells_are_skipped_if_only_the_device_knows_the_lengths() -> None:
    # As with lengths on a GPU: the host does not know the number of cells, which is bounded by the padded sizes.
    from stopwav.losses import triton_backend
    from stopwav.losses.backend import Arguments, Inputs
    from stopwav.losses.lengths import Lengths
    from stopwav.losses.precision import Arithmetic

    batch = draw(8, [(5, 1), (2, 3), (1, 0)])
    truth, true_gradients = oracle(batch, weights_of(batch))
    lengths = Lengths(torch.tensor(batch.frames), torch.tensor(batch.labels), on_host=None)
    arguments = Arguments(batch.targets, lengths, 0, "tanh", 0.0, Arithmetic(torch.float64), 7)
    inputs = Inputs(*(tensor.detach() for tensor in batch.inputs))
    losses, saved = triton_backend.losses(inputs, arguments)
    grads = triton_backend.gradients(inputs, arguments, saved, weights_of(batch))
    torch.testing.assert_close(losses, truth)
    gradients = (grads.encodings, grads.predictions, grads.weight, grads.bias)
    for gradient, true_gradient in zip(gradients, true_gradients, strict=True):
        assert relative_error(gradient, true_gradient) < 1e-9


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")
@pytest.mark.parametrize("lengths_on", ["cpu", "cuda"])
def test_nothing_waits_for_the_gpu_on_any_stream(lengths_on: str) -> None:
    batch = draw(8, [(50, 12), (20, 9), (1, 0)], symbols=30, width=24).to(torch.float32, "cuda")
    expected = step(batch, ("triton", "cuda"), weights_of(batch), chunk_cells=200)
    lengths = [torch.tensor(values, device=lengths_on) for values in (batch.frames, batch.labels)]
    moved = Batch(batch.inputs, batch.targets.cuda(), *lengths, batch.blank)  # type: ignore[arg-type]
    weights = weights_of(batch).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(side):
            losses, gradients = step(moved, ("triton", "cuda"), weights, chunk_cells=200)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    torch.testing.assert_close(losses, expected[0])
    for gradient, expected_gradient in zip(gradients, expected[1], strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")
def test_little_memory_makes_small_chunks() -> None:
    batch = draw(9, [(200, 50), (190, 40), (120, 49), (200, 30)], symbols=500, width=64).to(torch.float32, "cuda")
    expected = step(batch, ("triton", "cuda"), weights_of(batch))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    reserved = torch.cuda.memory_reserved()
    # The logits and activations of all 37,000 cells take more than 80 MB.
    torch.cuda.set_per_process_memory_fraction((reserved + 60e6) / torch.cuda.get_device_properties(0).total_memory)
    try:
        losses, gradients = step(batch, ("triton", "cuda"), weights_of(batch))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.cuda.max_memory_reserved() <= reserved + 60e6
    for tensor, other in zip((losses, *gradients), (expected[0], *expected[1]), strict=True):
        torch.testing.assert_close(tensor, other, rtol=1e-4, atol=1e-5)


@interpreted
def test_kernels_compile_for_a_gpu() -> None:
    """The interpreter does not check types; Triton's compiler does, and needs no GPU for it."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["compiled"]
