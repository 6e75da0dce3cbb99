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

from stopwav.losses.lengths import Lengths
from stopwav.losses.packing import FRAMES, PLACES, most_parts
from stopwav.losses.precision import rounded_to_tf32
from stopwav.losses.product_tiles import TileArithmetic, tiles_of


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
@pytest.mark.parametrize(
    "capability", [pytest.param(80, marks=pytest.mark.soak), pytest.param(89, marks=pytest.mark.soak), 90]
)
def test_kernels_compile_for_a_gpu(capability: int) -> None:
    """The interpreter does not check types; Triton's compiler does, and needs no GPU for it: Ampere, Ada, Hopper."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, Path(__file__).with_name("compile_kernels.py"), str(capability)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["compiled"]


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")
@pytest.mark.parametrize("symbols", [2, 17, 40, 70, 300])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("tf32", 3e-3), ("bfloat16", 3e-2)])
def test_any_vocabulary_is_right_in_any_precision(symbols: int, precision: str, tolerance: float) -> None:
    # Tiles are as wide as the vocabulary, and deeper than that in bfloat16: every column of the gradient is written.
    batch = draw(10, [(9, 5), (6, 3), (4, 0)], symbols=symbols, width=16)
    weights = weights_of(batch)
    truth, true_gradients = oracle(batch, weights)
    losses, gradients = step(batch.to(torch.float32, "cuda"), ("triton", "cuda"), weights, precision=precision)
    assert relative_error(losses, truth) < tolerance
    for gradient, true_gradient in zip(gradients, true_gradients, strict=True):
        assert relative_error(gradient, true_gradient) < tolerance


@interpreted
def test_products_of_tf32_are_as_exact_as_float32() -> None:
    # The interpreter does not round factors, so that this holds only where the kernels do it themselves.
    batch = draw(12, [(12, 7), (9, 4)], symbols=30, width=24)
    weights = weights_of(batch)
    truth, true_gradients = oracle(batch, weights)
    errors = {}
    for precision in ("float32", "tf32"):
        losses, gradients = step(batch.to(torch.float32, "cpu"), ("triton", "cpu"), weights, precision=precision)
        pairs = zip((losses, *gradients), (truth, *true_gradients), strict=True)
        errors[precision] = [float(relative_error(value, true)) for value, true in pairs]
    assert max(errors["float32"]) < 1e-6
    assert 1e-5 < max(errors["tf32"]) < 5e-4


@given(numbers=st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_rounding_to_tf32_is_to_the_nearest(numbers: list[float]) -> None:
    tensor = torch.tensor(numbers, dtype=torch.float32)
    rounded = rounded_to_tf32(tensor)
    assert torch.equal(rounded.isnan(), tensor.isnan())
    assert not (rounded.view(torch.int32) & 0x1FFF)[~tensor.isnan()].any()
    normal = tensor.isfinite() & rounded.isfinite() & (tensor.abs() > 1e-37)
    assert ((rounded - tensor).abs() <= tensor.abs() * 2.0**-11)[normal].all()


@settings(max_examples=200)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40)), min_size=1, max_size=5),
    step_cells=st.integers(1, 4000),
)
def test_partial_sums_are_counted_as_the_device_counts_them(lengths: list[tuple[int, int]], step_cells: int) -> None:
    frames, labels = (torch.tensor(values) for values in zip(*lengths, strict=True))
    cells = [(n, t, u) for n, (count, label) in enumerate(lengths) for t in range(count) for u in range(label + 1)]
    most = [0, 0, 0]
    for first in range(0, len(cells), step_cells):
        chunk = cells[first : first + step_cells]
        places = {n: -(-(labels[n].item() + 1) // PLACES) for n, _, _ in chunk}
        groups = {(n, t // FRAMES) for n, t, _ in chunk}
        most[0] = max(most[0], sum(places[n] for n, _ in groups))
        most[1] = max(most[1], sum(places[n] for n, _ in {(n, t) for n, t, _ in chunk}))
        most[2] = max(most[2], sum(labels[n].item() + 1 for n, _ in groups))
    on_host = most_parts(Lengths(frames, labels, tuple(lengths)), step_cells, 41)
    assert list(on_host) == most
    bound = most_parts(Lengths(frames, labels, None), step_cells, 41)
    assert all(known <= limit for known, limit in zip(on_host, bound, strict=True))


@given(
    limit=st.integers(48_000, 250_000),
    symbols=st.integers(1, 20_000),
    kind=st.sampled_from(
        [("split", torch.float32), ("tf32", torch.float32), ("ieee", torch.float16), ("ieee", torch.float64)]
    ),
)
def test_tiles_fit_the_shared_memory(limit: int, symbols: int, kind: tuple[TileArithmetic, torch.dtype]) -> None:
    tiles = tiles_of(*kind, symbols, limit)
    rights = 2 if kind[0] == "split" else 1
    for tile in (tiles.scores, tiles.grads):
        assert tile.shared_bytes(kind[1].itemsize, rights) <= limit
        assert tile.columns >= 16
        assert tile.columns & (tile.columns - 1) == 0
