"""Joiner and loss in one: value and every gradient against the oracle, by each backend that runs here."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from fused_steps import HAS_CUDA, RULES, SHAPES, check, check_shape, interpreted, step, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import Batch, distance, draw, oracle
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import plain_loss, transducer_loss

cuda = [pytest.mark.gpu, pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device here")]
PLACES = [
    pytest.param(("torch", "cpu"), id="torch"),
    pytest.param(("triton", "cpu"), id="triton-interpreted", marks=interpreted),
    pytest.param(("torch", "cuda"), id="torch-cuda", marks=cuda),
    pytest.param(("triton", "cuda"), id="triton-cuda", marks=cuda),
]
by_place = pytest.mark.parametrize("place", PLACES)
# No labels, one frame, lengths far apart.
LENGTHS = [(9, 4), (1, 4), (1, 0), (6, 0), (2, 3)]


@pytest.fixture(autouse=True)
def with_triton(request: pytest.FixtureRequest) -> None:
    place = request.node.callspec.params.get("place") if hasattr(request.node, "callspec") else None
    if place is not None and place[0] == "triton":
        pytest.importorskip("triton")


@by_place
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize(
    ("activation", "fastemit_lambda"), [("tanh", 0.0), ("tanh", 0.1), ("relu", 0.0), ("none", 0.5)]
)
def test_value_and_gradients_are_the_oracles(
    place: tuple[str, str], dtype: torch.dtype, near: float, activation: str, fastemit_lambda: float
) -> None:
    batch = draw(1, LENGTHS, blank=2)
    options = {"activation": activation, "fastemit_lambda": fastemit_lambda}
    check(batch, place, dtype, near, chunk_cells=40, **options)


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES, rule=RULES, chunk_cells=st.sampled_from([None, 1, 5, 64]))
def test_any_shape_is_exact(shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    check_shape(("torch", "cpu"), shape, rule, chunk_cells)


@interpreted
@settings(max_examples=5, deadline=None)
@given(shape=SHAPES, rule=RULES, chunk_cells=st.sampled_from([None, 17, 64]))
def test_any_shape_is_exact_interpreted(shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    pytest.importorskip("triton")
    check_shape(("triton", "cpu"), shape, rule, chunk_cells)


@by_place
def test_a_large_vocabulary(place: tuple[str, str]) -> None:
    check(draw(2, [(4, 2), (2, 3)], symbols=5000, width=24, blank=4999), place, torch.float32, 1e-4)


@by_place
def test_a_long_utterance_beside_a_short_one(place: tuple[str, str]) -> None:
    # In float32 too, where a sum over its paths reaches hundreds: it is taken in float64.
    check(draw(3, [(40, 12), (1, 1)], symbols=12, width=8), place, torch.float32, 1e-4)


@by_place
def test_logits_of_ten_thousand(place: tuple[str, str]) -> None:
    batch = draw(4, [(5, 3), (3, 1)], symbols=9, width=4)
    with torch.no_grad():
        batch.inputs[2].mul_(1e4)
    check(batch, place, torch.float32, 1e-3)


@pytest.mark.parametrize("place", [PLACES[0], *PLACES[2:]])
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_no_further_off_than_autocast(place: tuple[str, str], precision: str) -> None:
    check_against_autocast(place, precision, seeds=15, lengths=[(40, 12), (35, 11), (20, 1), (40, 12)])


@interpreted
def test_half_precision_is_no_further_off_than_autocast_interpreted() -> None:
    # In float16 alone: the interpreter cuts bf16 off where a GPU rounds it.
    pytest.importorskip("triton")
    check_against_autocast(("triton", "cpu"), "float16", seeds=3, lengths=[(12, 5), (7, 4), (6, 1)])


def check_against_autocast(place: tuple[str, str], precision: str, seeds: int, lengths: list[tuple[int, int]]) -> None:
    """In the median of some batches, value and gradients are no further from the truth than PyTorch's autocast is.

    The median, since where two paths are about equal a rounding decides between them, and then one batch decides all.
    """
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}[precision]
    ours, theirs = [], []
    for seed in range(seeds):
        exact = draw(seed, lengths, symbols=50, width=64)
        weights = weights_of(exact)
        truth = step(exact, ("torch", "cpu"), weights)
        batch = exact.to(torch.float32, place[1])
        found = step(batch, place, weights, precision=precision, chunk_cells=100)
        with torch.autocast(place[1], dtype):
            hidden = torch.tanh(batch.inputs[0][:, :, None] + batch.inputs[1][:, None])
            logits = functional.linear(hidden, *batch.inputs[2:])
            losses = plain_loss(logits, batch.targets, batch.frames, batch.labels, batch.blank)
        gradients = torch.autograd.grad((losses * weights.to(losses)).sum(), batch.inputs)
        for errors, value, grads in ((ours, *found), (theirs, losses, gradients)):
            pairs = [(value, truth[0]), *zip(grads, truth[1], strict=True)]
            errors.append([distance(one, true) for one, true in pairs])
    ratios = (torch.tensor(ours) / torch.tensor(theirs)).median(dim=0).values
    # 2 %: both round, each in an order of its own.
    assert (ratios <= 1.02).all(), ratios.tolist()


@by_place
def test_gradcheck(place: tuple[str, str]) -> None:
    batch = draw(5, [(3, 2), (2, 0)], symbols=4, width=3).to(torch.float64, place[1])

    def loss(*inputs: torch.Tensor) -> torch.Tensor:
        return transducer_loss(
            *inputs, batch.targets, batch.frames, batch.labels, reduction="none", backend=place[0], chunk_cells=4
        )

    assert torch.autograd.gradcheck(loss, batch.inputs, nondet_tol=0.0, fast_mode=place == ("triton", "cpu"))


@by_place
def test_runs_repeat_bit_by_bit(place: tuple[str, str]) -> None:
    batch = draw(6, [(12, 5), (7, 6), (9, 0)], symbols=40, width=20).to(torch.float32, place[1])
    first, again = (step(batch, place, weights_of(batch), chunk_cells=31) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert all(map(torch.equal, first[1], again[1]))


@by_place
def test_lengths_may_lie_where_the_batch_does(place: tuple[str, str]) -> None:
    batch = draw(7, [(5, 2), (3, 3), (1, 0)]).to(torch.float64, place[1])
    weights = weights_of(batch)
    losses, gradients = step(batch, place, weights)
    tensors = [torch.tensor(one, device=place[1]) for one in (batch.frames, batch.labels)]
    moved = Batch(batch.inputs, batch.targets.to(place[1]), *tensors, batch.blank)  # type: ignore[arg-type]
    found, found_gradients = step(moved, place, weights)
    torch.testing.assert_close(found, losses, rtol=1e-12, atol=1e-12)
    for one, other in zip(gradients, found_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@by_place
def test_gradients_accumulate(place: tuple[str, str]) -> None:
    batch = draw(9, [(4, 2), (3, 1)]).to(torch.float64, place[1])
    arguments = (batch.targets, batch.frames, batch.labels)
    once = transducer_loss(*batch.inputs, *arguments, backend=place[0])
    once.backward(retain_graph=True)
    first = [one.grad.clone() for one in batch.inputs if one.grad is not None]
    once.backward()
    transducer_loss(*batch.inputs, *arguments, backend=place[0]).backward()
    for one, grad in zip(batch.inputs, first, strict=True):
        torch.testing.assert_close(one.grad, 3 * grad, rtol=1e-12, atol=1e-12)


@by_place
def test_a_scaled_loss_does_not_overflow_half_precision(place: tuple[str, str]) -> None:
    batch = draw(10, [(6, 3), (4, 2)], symbols=20, width=16).to(torch.float32, place[1])
    plain = step(batch, place, torch.ones(2), precision="float16")[1]
    scaled = step(batch, place, torch.full((2,), 2.0**17), precision="float16")[1]
    for one, other in zip(plain, scaled, strict=True):
        torch.testing.assert_close(other, one * 2.0**17)


@by_place
def test_autocast_is_followed_and_left_as_it_was(place: tuple[str, str]) -> None:
    batch = draw(11, [(5, 2), (4, 3)], symbols=20, width=16).to(torch.float32, place[1])
    asked, _ = step(batch, place, weights_of(batch), precision="float16")
    with torch.autocast(place[1], torch.float16):
        found, gradients = step(batch, place, weights_of(batch))
        assert torch.is_autocast_enabled(place[1])
        exact, _ = step(batch, place, weights_of(batch), precision="float32")
    assert torch.equal(found, asked)
    assert not torch.equal(found, exact)
    assert all(one.dtype == torch.float32 for one in gradients)


@by_place
def test_torch_compile_around_it(place: tuple[str, str]) -> None:
    batch = draw(12, [(4, 2), (3, 1)]).to(torch.float64, place[1])

    def training_loss(encodings: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        loss = transducer_loss(
            encodings * 2, *rest, batch.targets, batch.frames, batch.labels, reduction="sum", backend=place[0]
        )
        return loss + encodings.square().sum()

    plain = torch.autograd.grad(training_loss(*batch.inputs), batch.inputs)
    # Without code generation, which has a compiler of its own to be tested with.
    compiled = torch.compile(training_loss, backend="aot_eager")
    for one, other in zip(plain, torch.autograd.grad(compiled(*batch.inputs), batch.inputs), strict=True):
        torch.testing.assert_close(one, other)


@by_place
def test_inputs_that_are_no_leaves_not_contiguous_or_without_gradient(place: tuple[str, str]) -> None:
    batch = draw(13, [(4, 2), (3, 1)], symbols=6, width=8).to(torch.float64, place[1])
    encodings, predictions, weight, bias = batch.inputs
    strided = encodings.transpose(0, 1).contiguous().transpose(0, 1), predictions.repeat(1, 1, 2)[..., ::2]
    halves = torch.cat([predictions, predictions], dim=2).reshape(2, -1, 2, 8)[:, :, 0]
    arguments = (batch.targets, batch.frames, batch.labels)
    truth = transducer_loss(*batch.inputs, *arguments, backend=place[0])
    assert not strided[0].is_contiguous()
    strided_targets = batch.targets.T.contiguous().T
    assert not strided_targets.is_contiguous()
    rest = (strided_targets, *arguments[1:])
    found = transducer_loss(strided[0], halves, weight.detach(), None, *rest, backend=place[0])
    zero_bias = transducer_loss(encodings, predictions, weight, torch.zeros_like(bias), *arguments, backend=place[0])
    torch.testing.assert_close(found, zero_bias)
    assert truth != found
    torch.testing.assert_close(
        torch.autograd.grad(found, encodings)[0], torch.autograd.grad(zero_bias, encodings)[0], rtol=1e-12, atol=1e-12
    )


@by_place
def test_a_nan_inside_shows(place: tuple[str, str]) -> None:
    batch = draw(14, [(4, 2), (3, 1)]).to(torch.float32, place[1])
    with torch.no_grad():
        batch.inputs[0][0, 2, 1] = float("nan")
        # Behind the last frame it does not.
        batch.inputs[0][1, 3, 1] = float("nan")
    for activation in ("tanh", "relu"):
        losses, gradients = step(batch, place, torch.ones(2), activation=activation)
        assert losses.isnan().tolist() == [True, False]
        assert gradients[0][0].isnan().any()
        assert gradients[0][1].isfinite().all()


def test_only_cells_of_some_weight_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # A model that is sure of its alignment: of 40 · 21 cells the paths of any weight take a band.
    batch = draw(15, [(40, 20)], symbols=21, width=21)
    with torch.no_grad():
        for one in batch.inputs:
            one.zero_()
        batch.inputs[2].copy_(200 * torch.eye(21))
        # Label u in frame 2u, blank in between.
        batch.inputs[0][0, :, 0] = 0.5
        for u in range(20):
            batch.inputs[0][0, 2 * u, u + 1] = 1.0
        batch.targets[0] = torch.arange(1, 21)
    truth, gradients = oracle(batch, torch.ones(1, dtype=torch.float64), "none")
    from stopwav.losses import chunked

    rows: list[int] = []
    through = chunked._Joiner.logit_gradient
    monkeypatch.setattr(
        chunked._Joiner,
        "logit_gradient",
        lambda self, hidden, *rest: (rows.append(len(hidden)), through(self, hidden, *rest))[1],
    )
    found, found_gradients = step(batch, ("torch", "cpu"), torch.ones(1), activation="none", chunk_cells=40)
    torch.testing.assert_close(found, truth)
    assert sum(rows) < 40 * 21 / 3
    for one, true in zip(found_gradients, gradients, strict=True):
        torch.testing.assert_close(one, true, rtol=1e-9, atol=1e-12)


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
def test_what_cannot_be_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
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
