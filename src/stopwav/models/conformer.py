"""The Conformer encoder: convolutions that take every fourth frame, and blocks of attention and convolution.

The layout is ESPnet's, and so are the sums; padding, which its convolutions see, is hidden from every frame here, so
that an utterance is encoded the same alone and in a batch. There is no dropout: these networks only decode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

# A number of frames or of bands, or a tensor of them.
Count = TypeVar("Count", int, Tensor)
# ESPnet's epsilon of layer norms.
EPSILON = 1e-12


@dataclass(frozen=True)
class ConformerShape:
    """The sizes of the Conformer family; the defaults are those of the published comparison, to the parameter."""

    bands: int = 80
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    kernel: int = 31  # of the convolution over time in each block
    blocks: int = 12
    decoder_blocks: int = 6
    tokens: int = 5000
    # The encoder frames of ESPnet's table of positions: 200 s at 40 ms.
    max_frames: int | None = 5000

    def frames(self, features: int) -> int:
        """Return the number of encoder frames of so many feature frames."""
        return subsampled(features)

    @property
    def min_features(self) -> int:
        """The fewest feature frames that make one encoder frame."""
        return 7


def subsampled(count: Count) -> Count:
    """Return how many frames, or bands, are left by two convolutions of size 3 and stride 2 without padding."""
    return ((count - 1) // 2 - 1) // 2


def relative_shift(by_distance: Tensor) -> Tensor:
    """Turn scores by distance into scores by key: `(…, time, 2 · time - 1)` to `(…, time, time)`.

    Query i sees key k at the distance i - k, which is at the position time - 1 - i + k: one earlier in every row.
    """
    time = by_distance.shape[-2]
    return by_distance.flatten(-2)[..., time - 1 :].unfold(-1, time, max(1, 2 * time - 2))


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return the encodings of positions, `(positions, width)`: alternating sines and cosines of falling frequency."""
    frequencies = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10_000.0) / width))
    angles = positions[:, None].float() * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class RelativeAttention(nn.Module):
    """Multi-head self-attention of `(batch, time, width)` that scores a key by its content and by its distance.

    As in Transformer-XL.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.empty(heads, width // heads))
        self.position_bias = nn.Parameter(torch.empty(heads, width // heads))
        nn.init.xavier_uniform_(self.content_bias)
        nn.init.xavier_uniform_(self.position_bias)

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor) -> Tensor:
        """Return the attended values.

        `distances` holds the encodings of all distances, farthest ahead last; `mask` is 0 for frames and -inf for
        padding, `(batch, 1, 1, time)`.
        """
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        distance = self._split(self.position(distances)[None])
        by_distance = (query + self.position_bias[:, None]) @ distance.transpose(2, 3)
        bias = relative_shift(by_distance) / math.sqrt(query.shape[-1]) + mask
        attended = functional.scaled_dot_product_attention(
            query + self.content_bias[:, None], key, value, attn_mask=bias
        )
        return self.out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FrontEnd(nn.Module):
    """`(batch, time, bands)` to a quarter of the frames: two 3 × 3 convolutions of stride 2, and a projection."""

    def __init__(self, bands: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, 2)
        self.second = nn.Conv2d(width, width, 3, 2)
        self.project = nn.Linear(width * subsampled(bands), width)

    def forward(self, features: Tensor) -> Tensor:
        """Return the frames."""
        x = self.second(self.first(features[:, None]).relu()).relu()
        return self.project(x.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers with a swish between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layers' output."""
        return self.narrow(functional.silu(self.widen(x)))


class Convolution(nn.Module):
    """A gate, a depthwise convolution over time, a batch norm, a swish and a projection."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.BatchNorm1d(width)
        self.project = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """Return the output; `padding` is true for padded frames, `(batch, time)`."""
        x = functional.glu(self.gate(x.transpose(1, 2)), dim=1)
        # The content of the padding would reach the last frames of the utterance.
        x = self.depthwise(x.masked_fill(padding[:, None], 0.0))
        return self.project(functional.silu(self.norm(x))).transpose(1, 2)


class ConformerBlock(nn.Module):
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
        """Return the block's output."""
        x = x + 0.5 * self.first_half(self.first_half_norm(x))
        x = x + self.attention(self.attention_norm(x), distances, mask)
        x = x + self.convolution(self.convolution_norm(x), padding)
        x = x + 0.5 * self.second_half(self.second_half_norm(x))
        return self.norm(x)


class ConformerEncoder(nn.Module):
    """Feature frames to encodings."""

    def __init__(self, shape: ConformerShape) -> None:
        super().__init__()
        self.front = FrontEnd(shape.bands, shape.width)
        self.blocks = nn.ModuleList(ConformerBlock(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width, EPSILON)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encodings of a batch, 0 in the padding, and the number of frames of each utterance."""
        x = self.front(features)
        lengths = subsampled(lengths)
        time, width = x.shape[1:]
        padding = torch.arange(time, device=x.device) >= lengths[:, None]
        mask = torch.zeros_like(padding, dtype=x.dtype).masked_fill(padding, -math.inf)[:, None, None]
        distances = sinusoids(torch.arange(time - 1, -time, -1, device=x.device), width).to(x.dtype)
        x = x * math.sqrt(width)
        for block in self.blocks:
            x = block(x, distances, mask, padding)
        return self.norm(x).masked_fill(padding[:, :, None], 0.0), lengths
