"""Steps of the fused loss by a backend, and how near they have to come to the oracle."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from lattices import Batch, distance, draw, oracle

from stopwav.losses import transducer_loss

HAS_CUDA = torch.cuda.is_available()
# Where there is a GPU, Triton compiles its kernels for it and does not interpret them.
interpreted = pytest.mark.skipif(HAS_CUDA, reason="kernels are compiled here")
# How the loss is asked for, beside its shapes.
RULES = st.fixed_dictionaries(
    {"activation": st.sampled_from(["tanh", "relu", "none"]), "fastemit_lambda": st.sampled_from([0.0, 0.3])}
)
NAMES = ("encoder", "predictor", "weight", "bias")
SHAPES = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=4),
        "symbols": st.sampled_from([2, 3, 16, 17, 100, 5000]),
        "width": st.sampled_from([1, 7, 16, 33]),
        "seed": st.integers(0, 2**31),
    }
)


def step(batch: Batch, place: tuple[str, str], weights: torch.Tensor, **options: Any) -> tuple[torch.Tensor, list]:
    """Losses and gradients by a backend."""
    losses = transducer_loss(
        *batch.inputs,
        *(batch.targets, batch.frames, batch.labels, batch.blank),
        **{"reduction": "none", "backend": place[0], **options},
    )
    return losses.detach(), list(torch.autograd.grad((losses * weights.to(losses)).sum(), batch.inputs))


def weights_of(batch: Batch) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, len(batch.frames), dtype=torch.float64)


def check(batch: Batch, place: tuple[str, str], dtype: torch.dtype, near: float, **options: Any) -> None:
    """Value and every gradient are as near to the oracle's as they have to be."""
    weights = weights_of(batch)
    rule = {name: options[name] for name in ("activation", "fastemit_lambda") if name in options}
    truth, gradients = oracle(batch, weights, **rule)
    found, found_gradients = step(batch.to(dtype, place[1]), place, weights, **options)
    torch.testing.assert_close(found.cpu().double(), truth, rtol=near, atol=near)
    for name, one, true in zip(NAMES, found_gradients, gradients, strict=True):
        assert one.dtype == dtype
        assert distance(one, true) < near, name


def check_shape(place: tuple[str, str], shape: dict[str, Any], rule: dict[str, Any], chunk_cells: int | None) -> None:
    blank = shape["seed"] % shape["symbols"]
    check(draw(**shape, blank=blank), place, torch.float64, 1e-9, chunk_cells=chunk_cells, **rule)
