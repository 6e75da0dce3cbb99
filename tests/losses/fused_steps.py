"""Training steps of the fused loss on a backend, and their comparison with the oracle."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from lattices import Batch, draw, oracle, relative_error

from stopwav.losses import transducer_loss

HAS_CUDA = torch.cuda.is_available()
# With a GPU, Triton compiles its kernels instead of interpreting them.
interpreted = pytest.mark.skipif(HAS_CUDA, reason="kernels are compiled here")
# The settings of the loss other than its shapes.
SETTINGS = st.fixed_dictionaries(
    {"activation": st.sampled_from(["tanh", "relu", "none"]), "fastemit_lambda": st.sampled_from([0.0, 0.3])}
)
NAMES = ("encoder", "predictor", "weight", "bias")


def shapes(max_frames: int, max_labels: int, max_utterances: int) -> st.SearchStrategy[dict[str, Any]]:
    """Batches of up to these sizes."""
    lengths = st.tuples(st.integers(1, max_frames), st.integers(0, max_labels))
    return st.fixed_dictionaries(
        {
            "lengths": st.lists(lengths, min_size=1, max_size=max_utterances),
            "symbols": st.sampled_from([2, 3, 16, 17, 100, 5000]),
            "width": st.sampled_from([1, 7, 16, 33]),
            "seed": st.integers(0, 2**31),
        }
    )


def step(batch: Batch, backend: tuple[str, str], weights: torch.Tensor, **options: Any) -> tuple[torch.Tensor, list]:
    """Losses and gradients on a backend, which is a name and a device."""
    losses = transducer_loss(
        *batch.inputs,
        *(batch.targets, batch.frames, batch.labels, batch.blank),
        **{"reduction": "none", "backend": backend[0], **options},
    )
    return losses.detach(), list(torch.autograd.grad((losses * weights.to(losses)).sum(), batch.inputs))


def weights_of(batch: Batch) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, len(batch.frames), dtype=torch.float64)


def check(batch: Batch, backend: tuple[str, str], dtype: torch.dtype, tolerance: float, **options: Any) -> None:
    """Check that value and gradients are the oracle's within the tolerance."""
    weights = weights_of(batch)
    settings = {name: options[name] for name in ("activation", "fastemit_lambda") if name in options}
    truth, true_grads = oracle(batch, weights, **settings)
    losses, grads = step(batch.to(dtype, backend[1]), backend, weights, **options)
    torch.testing.assert_close(losses.cpu().double(), truth, rtol=tolerance, atol=tolerance)
    for name, grad, true_grad in zip(NAMES, grads, true_grads, strict=True):
        assert grad.dtype == dtype
        assert relative_error(grad, true_grad) < tolerance, name


def check_shape(
    backend: tuple[str, str], shape: dict[str, Any], settings: dict[str, Any], chunk_cells: int | None
) -> None:
    """Check a batch of drawn shape and settings against the oracle in float64."""
    blank = shape["seed"] % shape["symbols"]
    check(draw(**shape, blank=blank), backend, torch.float64, 1e-9, chunk_cells=chunk_cells, **settings)
