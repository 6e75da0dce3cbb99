"""Linear layers in other layouts and in 8 bits against the plain product."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from stopwav.models.checkpoint import (
    DenseLinear,
    Int8Linear,
    Linear,
    PackedLinear,
    disable_amx_in_vm,
    fastest_linear,
    fuse,
)


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", [DenseLinear, PackedLinear])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 10, 40])
def test_a_layout_changes_nothing(kind: type[Linear], bias: bool, rows: int) -> None:
    weight, offset = drawn(48, 32, seed=0), drawn(48, seed=1) if bias else None
    layer = kind(weight, offset)  # type: ignore[call-arg]
    x, other = drawn(rows, 32, seed=2), drawn(rows, 48, seed=3)
    expected = functional.linear(x, weight, offset)
    torch.testing.assert_close(layer(x), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(layer.gelu(x), functional.gelu(expected), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(layer.plus(x, other), expected + other, atol=1e-4, rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 12), scale=st.sampled_from([1e-3, 1.0, 50.0]))
def test_8_bits_err_by_no_more_than_their_steps(seed: int, rows: int, scale: float) -> None:
    weight, offset = drawn(24, 32, seed=seed), drawn(24, seed=seed + 1)
    x = scale * drawn(rows, 32, seed=seed + 2)
    # Weights: 127 steps either side, a scale for each row. Activations: 127 steps from the least to the largest, and
    # half a step more because zero must be one of them.
    weight_error = weight.abs().amax(1) / 127 / 2
    step = (x.max().clamp(min=0) - x.min().clamp(max=0)) / 127
    bound = x.abs().sum(1)[:, None] * weight_error + weight.abs().sum(1) * step + 32 * weight_error * step
    actual = Int8Linear(weight, offset)(x)
    exact = functional.linear(x, weight, offset)
    assert ((actual - exact).abs() <= bound + 1e-5).all()
    assert (actual - exact).norm() < 0.05 * (exact - offset).norm()


def test_8_bits_of_a_row_of_zeros_are_zeros() -> None:
    weight = drawn(4, 8, seed=0)
    weight[2] = 0
    assert Int8Linear(weight, None)(drawn(3, 8, seed=1))[:, 2].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", [DenseLinear, PackedLinear])
def test_fused_layers_are_their_results_in_a_row(kind: type[Linear]) -> None:
    torch.manual_seed(0)
    first, second = torch.nn.Linear(16, 8), torch.nn.Linear(16, 24)
    x = drawn(5, 16, seed=1)
    torch.testing.assert_close(
        fuse(kind, first, second)(x), torch.cat([first(x), second(x)], 1).detach(), atol=1e-5, rtol=1e-5
    )


def test_the_kind_of_layer_follows_device_and_precision() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert fastest_linear(cpu, "int8") is Int8Linear
    assert fastest_linear(cpu, "float32") is fastest_linear(cpu, "bfloat16") is PackedLinear
    assert fastest_linear(cpu, "float32", compiled=True) is DenseLinear
    assert fastest_linear(cuda, "float16") is DenseLinear


@pytest.mark.parametrize(
    ("flags", "setting"), [("hypervisor amx_tile", "AVX512_CORE_BF16"), ("amx_tile", None), ("hypervisor", None)]
)
def test_amx_is_disabled_in_a_virtual_machine_that_announces_it(
    flags: str, setting: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}\n")
    monkeypatch.setattr("stopwav.models.checkpoint.Path", lambda path: tmp_path / "cpuinfo")
    monkeypatch.setattr("os.environ", {})
    disable_amx_in_vm()
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == setting
