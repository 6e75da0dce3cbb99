"""The fused loss: value and gradients against the oracle, on each backend that runs here."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from fused_steps import HAS_CUDA, SETTINGS, check, check_shape, interpreted, shapes, step, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import Batch, draw, oracle, relative_error
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import plain_loss, transducer_loss

cuda = [pytest.mark.gpu, pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")]
BACKENDS = [
    pytest.param(("torch", "cpu"), id="torch"),
    pytest.param(("triton", "cpu"), id="triton-interpreted", marks=interpreted),
    pytest.param(("torch", "cuda"), id="torch-cuda", marks=cuda),
    pytest.param(("triton", "cuda"), id="triton-cuda", marks=cuda),
]
by_backend = pytest.mark.parametrize("backend", BACKENDS)
# For what does not depend on the kernels, or what the oracle proves of them already: interpreting is slow.
by_fast_backend = pytest.mark.parametrize("backend", [BACKENDS[0], *BACKENDS[2:]])
# No labels, one frame, very different lengths.
LENGTHS = [(5, 3), (1, 3), (1, 0), (4, 0), (2, 2)]


@pytest.fixture(autouse=True)
def with_triton(request: pytest.FixtureRequest) -> None:
    backend = request.node.callspec.params.get("backend") if hasattr(request.node, "callspec") else None
    if backend is not None and backend[0] == "triton":
        pytest.importorskip("triton")


@by_backend
@pytest.mark.parametrize(
    ("activation", "fastemit_lambda", "dtype", "tolerance"),
    [
        ("tanh", 0.0, torch.float64, 1e-9),
        ("relu", 0.0, torch.float64, 1e-9),
        ("none", 0.5, torch.float64, 1e-9),
        ("tanh", 0.1, torch.float32, 1e-4),
    ],
)
def test_value_and_gradients_are_the_oracles(
    backend: tuple[str, str], activation: str, fastemit_lambda: float, dtype: torch.dtype, tolerance: float
) -> None:
    batch = draw(1, LENGTHS, blank=2)
    options = {"activation": activation, "fastemit_lambda": fastemit_lambda}
    check(batch, backend, dtype, tolerance, chunk_cells=20, **options)


@settings(max_examples=40, deadline=None)
@given(shape=shapes(12, 6, 4), rule=SETTINGS, chunk_cells=st.sampled_from([None, 1, 5, 64]))
def test_any_shape_is_exact(shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    check_shape(("torch", "cpu"), shape, rule, chunk_cells)


@interpreted
@settings(max_examples=5, deadline=None)
@given(shape=shapes(4, 3, 3), rule=SETTINGS, chunk_cells=st.sampled_from([None, 17]))
def test_any_shape_is_exact_interpreted(shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    pytest.importorskip("triton")
    check_shape(("triton", "cpu"), shape, rule, chunk_cells)


@by_backend
def test_a_large_vocabulary(backend: tuple[str, str]) -> None:
    check(draw(2, [(4, 2), (2, 3)], symbols=5000, width=24, blank=4999), backend, torch.float32, 1e-4)


@by_backend
def test_a_long_utterance_with_a_short_one(backend: tuple[str, str]) -> None:
    # Exact in float32 too, since the sum over paths, which is large here, is in float64.
    check(draw(3, [(20, 9), (1, 1)], symbols=12, width=8), backend, torch.float32, 1e-4)


@by_backend
def test_logits_of_ten_thousands(backend: tuple[str, str]) -> None:
    batch = draw(4, [(5, 3), (3, 1)], symbols=9, width=4)
    with torch.no_grad():
        batch.inputs[2].mul_(1e4)
    check(batch, backend, torch.float32, 1e-3)


@by_fast_backend
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_as_exact_as_autocast(backend: tuple[str, str], precision: str) -> None:
    check_against_autocast(backend, precision, seeds=15, lengths=[(40, 12), (35, 11), (20, 1), (40, 12)])


@interpreted
def test_half_precision_is_as_exact_as_autocast_interpreted() -> None:
    # In float16 only: the interpreter truncates bf16 where a GPU rounds it.
    pytest.importorskip("triton")
    check_against_autocast(("triton", "cpu"), "float16", seeds=3, lengths=[(7, 3), (4, 2), (3, 1)])


def check_against_autocast(
    backend: tuple[str, str], precision: str, seeds: int, lengths: list[tuple[int, int]]
) -> None:
    """Check that in the median over batches the errors of value and gradients are no larger than those of autocast.

    The median, since rounding decides between two paths that are about equal, and such a batch would decide alone.
    """
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}[precision]
    our_errors, autocast_errors = [], []
    for seed in range(seeds):
        exact = draw(seed, lengths, symbols=50, width=64)
        weights = weights_of(exact)
        truth = step(exact, ("torch", "cpu"), weights)
        batch = exact.to(torch.float32, backend[1])
        ours = step(batch, backend, weights, precision=precision, chunk_cells=100)
        with torch.autocast(backend[1], dtype):
            hidden = torch.tanh(batch.inputs[0][:, :, None] + batch.inputs[1][:, None])
            logits = functional.linear(hidden, *batch.inputs[2:])
            losses = plain_loss(logits, batch.targets, batch.frames, batch.labels, batch.blank)
        gradients = torch.autograd.grad((losses * weights.to(losses)).sum(), batch.inputs)
        for errors, value, grads in ((our_errors, *ours), (autocast_errors, losses, gradients)):
            pairs = [(value, truth[0]), *zip(grads, truth[1], strict=True)]
            errors.append([relative_error(tensor, true) for tensor, true in pairs])
    ratios = (torch.tensor(our_errors) / torch.tensor(autocast_errors)).median(dim=0).values
    # 2 %, since each rounds in its own order.
    assert (ratios <= 1.02).all(), ratios.tolist()


@by_fast_backend
def test_gradcheck(backend: tuple[str, str]) -> None:
    batch = draw(5, [(3, 2), (2, 0)], symbols=4, width=3).to(torch.float64, backend[1])

    def loss(*inputs: torch.Tensor) -> torch.Tensor:
        return transducer_loss(
            *inputs, batch.targets, batch.frames, batch.labels, reduction="none", backend=backend[0], chunk_cells=4
        )

    assert torch.autograd.gradcheck(loss, batch.inputs, nondet_tol=0.0)


@by_backend
def test_results_repeat_bit_by_bit(backend: tuple[str, str]) -> None:
    lengths = [(4, 2), (2, 3), (3, 0)] if backend == ("triton", "cpu") else [(12, 5), (7, 6), (9, 0)]
    batch = draw(6, lengths, symbols=40, width=20).to(torch.float32, backend[1])
    first, again = (step(batch, backend, weights_of(batch), chunk_cells=11) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert all(map(torch.equal, first[1], again[1]))


@by_backend
def test_lengths_may_be_on_the_device_of_the_batch(backend: tuple[str, str]) -> None:
    batch = draw(7, [(5, 2), (3, 3), (1, 0)]).to(torch.float64, backend[1])
    weights = weights_of(batch)
    losses, gradients = step(batch, backend, weights)
    tensors = [torch.tensor(lengths, device=backend[1]) for lengths in (batch.frames, batch.labels)]
    moved = Batch(batch.inputs, batch.targets.to(backend[1]), *tensors, batch.blank)  # type: ignore[arg-type]
    moved_losses, moved_gradients = step(moved, backend, weights)
    torch.testing.assert_close(moved_losses, losses, rtol=1e-12, atol=1e-12)
    for gradient, moved_gradient in zip(gradients, moved_gradients, strict=True):
        torch.testing.assert_close(gradient, moved_gradient, rtol=1e-9, atol=1e-12)


@by_backend
def test_gradients_accumulate(backend: tuple[str, str]) -> None:
    batch = draw(9, [(4, 2), (3, 1)]).to(torch.float64, backend[1])
    arguments = (batch.targets, batch.frames, batch.labels)
    loss = transducer_loss(*batch.inputs, *arguments, backend=backend[0])
    loss.backward(retain_graph=True)
    first = [tensor.grad.clone() for tensor in batch.inputs if tensor.grad is not None]
    loss.backward()
    transducer_loss(*batch.inputs, *arguments, backend=backend[0]).backward()
    for tensor, grad in zip(batch.inputs, first, strict=True):
        torch.testing.assert_close(tensor.grad, 3 * grad, rtol=1e-12, atol=1e-12)


@by_backend
def test_a_scaled_loss_does_not_overflow_half_precision(backend: tuple[str, str]) -> None:
    batch = draw(10, [(6, 3), (4, 2)], symbols=20, width=16).to(torch.float32, backend[1])
    plain_grads = step(batch, backend, torch.ones(2), precision="float16")[1]
    scaled_grads = step(batch, backend, torch.full((2,), 2.0**17), precision="float16")[1]
    for plain, scaled in zip(plain_grads, scaled_grads, strict=True):
        torch.testing.assert_close(scaled, plain * 2.0**17)


@by_backend
def test_autocast_is_followed_and_restored(backend: tuple[str, str]) -> None:
    batch = draw(11, [(5, 2), (4, 3)], symbols=20, width=16).to(torch.float32, backend[1])
    explicit, _ = step(batch, backend, weights_of(batch), precision="float16")
    with torch.autocast(backend[1], torch.float16):
        losses, gradients = step(batch, backend, weights_of(batch))
        assert torch.is_autocast_enabled(backend[1])
        exact, _ = step(batch, backend, weights_of(batch), precision="float32")
    assert torch.equal(losses, explicit)
    assert not torch.equal(losses, exact)
    assert all(gradient.dtype == torch.float32 for gradient in gradients)


@by_fast_backend
def test_torch_compile_around_it(backend: tuple[str, str]) -> None:
    batch = draw(12, [(4, 2), (3, 1)]).to(torch.float64, backend[1])

    def training_loss(encodings: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        loss = transducer_loss(
            encodings * 2, *rest, batch.targets, batch.frames, batch.labels, reduction="sum", backend=backend[0]
        )
        return loss + encodings.square().sum()

    plain = torch.autograd.grad(training_loss(*batch.inputs), batch.inputs)
    # Without code generation, which would only test its own compiler.
    compiled = torch.compile(training_loss, backend="aot_eager")
    for gradient, other in zip(plain, torch.autograd.grad(compiled(*batch.inputs), batch.inputs), strict=True):
        torch.testing.assert_close(gradient, other)


@by_backend
def test_inputs_that_are_not_leaves_not_contiguous_or_without_gradient(backend: tuple[str, str]) -> None:
    batch = draw(13, [(4, 2), (3, 1)], symbols=6, width=8).to(torch.float64, backend[1])
    encodings, predictions, weight, bias = batch.inputs
    strided = encodings.transpose(0, 1).contiguous().transpose(0, 1)
    halves = torch.cat([predictions, predictions], dim=2).reshape(2, -1, 2, 8)[:, :, 0]
    arguments = (batch.targets, batch.frames, batch.labels)
    with_bias = transducer_loss(*batch.inputs, *arguments, backend=backend[0])
    assert not strided.is_contiguous()
    strided_targets = batch.targets.T.contiguous().T
    assert not strided_targets.is_contiguous()
    rest = (strided_targets, *arguments[1:])
    loss = transducer_loss(strided, halves, weight.detach(), None, *rest, backend=backend[0])
    zero_bias = transducer_loss(encodings, predictions, weight, torch.zeros_like(bias), *arguments, backend=backend[0])
    torch.testing.assert_close(loss, zero_bias)
    assert loss != with_bias
    torch.testing.assert_close(
        torch.autograd.grad(loss, encodings)[0], torch.autograd.grad(zero_bias, encodings)[0], rtol=1e-12, atol=1e-12
    )


@by_backend
def test_a_nan_inside_shows(backend: tuple[str, str]) -> None:
    batch = draw(14, [(4, 2), (3, 1)]).to(torch.float32, backend[1])
    with torch.no_grad():
        batch.inputs[0][0, 2, 1] = float("nan")
        # After the last frame it does not show.
        batch.inputs[0][1, 3, 1] = float("nan")
    for activation in ("tanh", "relu"):
        losses, gradients = step(batch, backend, torch.ones(2), activation=activation)
        assert losses.isnan().tolist() == [True, False]
        assert gradients[0][0].isnan().any()
        assert gradients[0][1].isfinite().all()


def test_only_cells_of_some_weight_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # A model that is sure of its alignment: the paths of any weight stay in a band of the 40 · 21 cells.
    batch = draw(15, [(40, 20)], symbols=21, width=21)
    with torch.no_grad():
        for tensor in batch.inputs:
            tensor.zero_()
        batch.inputs[2].copy_(200 * torch.eye(21))
        # Label u in frame 2u, blank in between.
        batch.inputs[0][0, :, 0] = 0.5
        for u in range(20):
            batch.inputs[0][0, 2 * u, u + 1] = 1.0
        batch.targets[0] = torch.arange(1, 21)
    truth, true_gradients = oracle(batch, torch.ones(1, dtype=torch.float64), "none")
    from stopwav.losses import torch_backend

    rows: list[int] = []
    original = torch_backend._Joiner.logit_gradient
    monkeypatch.setattr(
        torch_backend._Joiner,
        "logit_gradient",
        lambda self, hidden, *rest: (rows.append(len(hidden)), original(self, hidden, *rest))[1],
    )
    losses, gradients = step(batch, ("torch", "cpu"), torch.ones(1), activation="none", chunk_cells=40)
    torch.testing.assert_close(losses, truth)
    assert sum(rows) < 40 * 21 / 3
    for gradient, true_gradient in zip(gradients, true_gradients, strict=True):
        torch.testing.assert_close(gradient, true_gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictor_out": torch.zeros(2, 2, 5)}, r"\(2, 2, 5\).*give tensors \(N, T, D\), \(N, U \+ 1, D\)"),
        ({"encoder_out": torch.zeros(())}, r"shapes \(\), .*give tensors"),
        ({"targets": [[1, 1], [1, 1]]}, r"\(7,\), list; give tensors"),
        ({"fastemit_lambda": float("nan")}, "fastemit_lambda nan; give a finite number"),
        ({"weight": torch.zeros(7, 6)}, r"\(7, 6\).*give"),
        ({"bias": torch.zeros(6)}, r"\(6,\).*give"),
        ({"activation": "gelu"}, "activation 'gelu'; give one of tanh, relu, none"),
        ({"precision": "int8"}, "precision 'int8'; give one of float64, float32, tf32, bfloat16, float16"),
        ({"chunk_cells": 0}, "chunk_cells 0; give at least 1"),
        ({"backend": "cuda"}, "backend 'cuda'; give one of auto, torch, triton"),
        ({"frame_lengths": [4, 5]}, "utterance 1 has 5 frames"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    arguments = {
        "encoder_out": torch.zeros(2, 4, 5),
        "predictor_out": torch.zeros(2, 3, 5),
        "weight": torch.zeros(7, 5),
        "bias": torch.zeros(7),
        "targets": torch.ones(2, 2, dtype=torch.int64),
        "frame_lengths": [4, 4],
        "target_lengths": [2, 2],
    }
    with pytest.raises(StopwavError, match=message) as caught:
        transducer_loss(**{**arguments, **change})
    assert "\n" not in str(caught.value)


def test_importing_the_losses_imports_no_torch() -> None:
    code = "import stopwav.losses, sys; assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
