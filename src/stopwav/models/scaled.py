"""Layers whose weights have a learned logarithmic scale, and a norm without a gain, as in reworked Conformers.

A scale lets a layer's output grow or shrink by one number instead of half a million; it is why the parameter counts of
these models end in odd digits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class ScaledLinear(nn.Linear):
    """A linear layer whose weight and bias are each multiplied by e to a scale."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(())) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        return functional.linear(x, self.scaled_weight(), self.scaled_bias())

    def scaled_weight(self) -> Tensor:
        """Return the weight that is applied."""
        return self.weight * self.weight_scale.exp()

    def scaled_bias(self) -> Tensor | None:
        """Return the bias that is applied."""
        return None if self.bias_scale is None else self.bias * self.bias_scale.exp()


class ScaledConv1d(nn.Conv1d):
    """A convolution over time whose weight and bias are each multiplied by e to a scale."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, padding: int = 0, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__(inputs, outputs, kernel, padding=padding, groups=groups, bias=bias)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(())) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        bias = None if self.bias is None or self.bias_scale is None else self.bias * self.bias_scale.exp()
        return self._conv_forward(x, self.weight * self.weight_scale.exp(), bias)


class ScaledConv2d(nn.Conv2d):
    """A convolution over time and bands whose weight and bias are each multiplied by e to a scale."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        assert self.bias is not None
        return self._conv_forward(x, self.weight * self.weight_scale.exp(), self.bias * self.bias_scale.exp())


class ScaledEmbedding(nn.Embedding):
    """An embedding that is multiplied by e to a scale."""

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__(symbols, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, symbols: Tensor) -> Tensor:
        """Return the vectors of the symbols."""
        return super().forward(symbols) * self.scale.exp()


class BasicNorm(nn.Module):
    """Each frame divided by its root mean square, with a floor that may be learned; no gain, no mean subtracted."""

    # At the start of training this much of a frame's power is not normalised away.
    FLOOR = 0.25

    def __init__(self, learned: bool = True) -> None:
        super().__init__()
        start = torch.tensor(self.FLOOR).log()
        self.log_floor: Tensor
        if learned:
            self.log_floor = nn.Parameter(start)
        else:
            self.register_buffer("log_floor", start, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised frames."""
        return x * (x.square().mean(dim=-1, keepdim=True) + self.log_floor.exp()).rsqrt()


class DoubleSwish(nn.Module):
    """x · sigmoid(x - 1): about a swish of a swish."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation."""
        return x * torch.sigmoid(x - 1)
