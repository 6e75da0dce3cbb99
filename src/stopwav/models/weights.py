"""Linear layers in the form that the processor reads fastest: as they are, packed, or in 8 bits.

A streaming step multiplies every weight with a handful of rows, so its time is the time to read the weights: the layout
decides how close to memory speed that gets, and the number of bits how much there is to read.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

# Rows for which oneDNN chooses the layout; a streaming step has 5, a beam 10.
PACKED_FOR_ROWS = 8


class Linear(Protocol):
    """A linear layer, alone and with the operation that follows it in a network."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        ...

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        ...

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        ...


class DenseLinear:
    """Weights as PyTorch keeps them."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        return functional.linear(x, self._weight, self._bias)

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        return functional.gelu(self(x))

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return other + self(x)


class PackedLinear:
    """Weights in oneDNN's blocked layout, for the CPU; the operation after the product is done in registers."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result, in its exact form."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "gelu", [], "none")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, "add")


class Int8Linear:
    """Weights in 8 bits with one scale per row, and activations scaled to 8 bits at every call; for the CPU."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch recommends another package for quantised training
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantised, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        # Reduced range keeps sums from overflowing on processors without 8-bit dot products.
        return torch.ops.quantized.linear_dynamic(x, self._packed, True)

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        return functional.gelu(self(x))

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return other + self(x)


def fastest_linear(device: torch.device, precision: str, compiled: bool = False) -> type[Linear]:
    """Return the kind of layer that is fastest on a device in a precision."""
    if precision == "int8":
        return Int8Linear
    # A compiler packs the weights itself, and the GPU's libraries need them as they are.
    packs = device.type == "cpu" and not compiled and precision in ("float32", "bfloat16")
    return PackedLinear if packs and hasattr(torch.ops.mkldnn, "_linear_pointwise") else DenseLinear


def fuse(kind: type[Linear], *layers: nn.Linear) -> Linear:
    """Return layers of the same input as one layer, their results side by side."""
    biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
    # A single layer keeps its own bias tensor, so that later changes to it take effect.
    bias = torch.cat(biases) if len(biases) > 1 else next(iter(biases), None)
    return kind(torch.cat([layer.weight.detach() for layer in layers]), bias)  # type: ignore[call-arg]


def disable_amx_in_vm() -> None:
    """Keep oneDNN from using AMX inside a virtual machine: some announce it and then kill the process that uses it.

    A streaming step loses nothing: AMX speeds up arithmetic, and its time is the reading of weights.
    """
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().split() if cpuinfo.is_file() else []
    if "hypervisor" in flags and "amx_tile" in flags:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
