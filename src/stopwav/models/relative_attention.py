"""Attention that scores a key by what it holds and by how far away it is, as in Transformer-XL and the Conformer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class RelativeAttention(nn.Module):
    """Multi-head attention of `(batch, time, width)` over itself."""

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
        """The attended values.

        `distances` holds the encodings of all distances, farthest ahead last; `mask` is 0 for keys that count and -inf
        for padding, `(batch, 1, 1, time)`.
        """
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        distance = self._split(self.position(distances)[None])
        by_distance = (query + self.position_bias[:, None]) @ distance.transpose(2, 3)
        bias = shifted(by_distance) / math.sqrt(query.shape[-1]) + mask
        attended = functional.scaled_dot_product_attention(
            query + self.content_bias[:, None], key, value, attn_mask=bias
        )
        return self.out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def shifted(by_distance: Tensor) -> Tensor:
    """Scores by key in place of scores by distance: `(…, time, 2 · time - 1)` to `(…, time, time)`.

    Query i sees key k at the distance i - k, which stands at the place time - 1 - i + k: one earlier in every row.
    """
    time = by_distance.shape[-2]
    return by_distance.flatten(-2)[..., time - 1 :].unfold(-1, time, max(1, 2 * time - 2))


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """The encodings of positions, `(positions, width)`: sines and cosines in turn, of falling frequency."""
    frequencies = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10_000.0) / width))
    angles = positions[:, None].float() * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
