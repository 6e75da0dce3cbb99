"""The Conformer encoder: convolutions that take every fourth frame, and blocks of attention and convolution.

The layout is ESPnet's, and so are the sums; padding, which its convolutions see, is kept from every frame here, so that
an utterance is encoded alike alone and in a batch. There is no dropout: these networks are decoded, not trained.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.hybrid_shapes import ConformerShape
from stopwav.models.relative_attention import RelativeAttention, sinusoids

# ESPnet's tolerance of layer norms.
EPSILON = 1e-12


class FrontEnd(nn.Module):
    """`(batch, time, bands)` to a quarter of the frames: two convolutions of 3 × 3 by steps of 2, and a projection."""

    def __init__(self, bands: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, 2)
        self.second = nn.Conv2d(width, width, 3, 2)
        self.project = nn.Linear(width * (((bands - 1) // 2 - 1) // 2), width)

    def forward(self, features: Tensor) -> Tensor:
        """The frames."""
        x = self.second(self.first(features[:, None]).relu()).relu()
        return self.project(x.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers with a swish between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """The layers' output."""
        return self.narrow(functional.silu(self.widen(x)))


class Convolution(nn.Module):
    """A gate, a convolution of each channel over time, a batch norm, a swish and a projection."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.BatchNorm1d(width)
        self.project = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """The output; `padding` says which frames are, `(batch, time)`."""
        x = functional.glu(self.gate(x.transpose(1, 2)), dim=1)
        # What stands in the padding would reach the last frames of the utterance.
        x = self.depthwise(x.masked_fill(padding[:, None], 0.0))
        return self.project(functional.silu(self.norm(x))).transpose(1, 2)


class Block(nn.Module):
    """Half a feed-forward, attention, convolution, the other half, each with a norm before it, and a last norm."""

    def __init__(self, shape: ConformerShape) -> None:
        super().__init__()
        width = shape.width
        self.first_half = FeedForward(width, shape.feed_forward)
        self.attention = RelativeAttention(width, shape.heads)
        self.convolution = Convolution(width, shape.kernel)
        self.second_half = FeedForward(width, shape.feed_forward)
        self.first_half_norm = nn.LayerNorm(width, EPSILON)
        self.attention_norm = nn.LayerNorm(width, EPSILON)
        self.convolution_norm = nn.LayerNorm(width, EPSILON)
        self.second_half_norm = nn.LayerNorm(width, EPSILON)
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor, padding: Tensor) -> Tensor:
        """The block's output."""
        x = x + 0.5 * self.first_half(self.first_half_norm(x))
        x = x + self.attention(self.attention_norm(x), distances, mask)
        x = x + self.convolution(self.convolution_norm(x), padding)
        x = x + 0.5 * self.second_half(self.second_half_norm(x))
        return self.norm(x)


class ConformerEncoder(nn.Module):
    """Feature frames to encodings."""

    def __init__(self, shape: ConformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.front = FrontEnd(shape.bands, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width, EPSILON)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The encodings of a batch, 0 in the padding, and how many frames each utterance has."""
        x = self.front(features)
        lengths = ((lengths - 1) // 2 - 1) // 2
        time, width = x.shape[1:]
        padding = torch.arange(time, device=x.device) >= lengths[:, None]
        mask = torch.zeros_like(padding, dtype=x.dtype).masked_fill(padding, -math.inf)[:, None, None]
        distances = sinusoids(torch.arange(time - 1, -time, -1, device=x.device), width).to(x.dtype)
        x = x * math.sqrt(width)
        for block in self.blocks:
            x = block(x, distances, mask, padding)
        return self.norm(x).masked_fill(padding[:, :, None], 0.0), lengths
