"""The Emformer: a Transformer encoder that reads segment by segment, with a little audio ahead and a cached past.

Parameters have the names and shapes of torchaudio's `Emformer`, so that its checkpoints load. Frames are counted after
the encoder's time reduction unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class EmformerShape:
    """The sizes of the encoder; the defaults are those of the published base model."""

    bands: int = 80
    reduced: int = 128  # width before `stride` neighbouring frames become one
    stride: int = 4
    heads: int = 8
    feed_forward: int = 2048
    layers: int = 20
    segment: int = 16  # feature frames per step
    right_context: int = 4  # feature frames ahead of the segment
    left_context: int = 30  # frames of the past that attention sees
    encoding: int = 1024

    @property
    def width(self) -> int:
        """The width of the layers."""
        return self.reduced * self.stride

    @property
    def segment_frames(self) -> int:
        """Frames per step."""
        return self.segment // self.stride

    @property
    def ahead_frames(self) -> int:
        """Frames ahead of a segment."""
        return self.right_context // self.stride


class EmformerAttention(nn.Module):
    """Multi-head self-attention of `(batch, time, width)`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.emb_to_key_value = nn.Linear(width, 2 * width)
        self.emb_to_query = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the attended values."""
        tensors = self.emb_to_query(x), *self.emb_to_key_value(x).chunk(2, dim=-1)
        query, key, value = (tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2) for tensor in tensors)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class EmformerLayer(nn.Module):
    """One Emformer layer: attention and feed-forward, each with a norm before it, and a norm at the end."""

    def __init__(self, shape: EmformerShape, dropout: float) -> None:
        super().__init__()
        width = shape.width
        self.attention = EmformerAttention(width, shape.heads)
        # The published names count the activation and the dropouts too: 0, 1 and 4 hold parameters.
        self.pos_ff = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, shape.feed_forward),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(shape.feed_forward, width),
            nn.Dropout(dropout),
        )
        self.layer_norm_input = nn.LayerNorm(width)
        self.layer_norm_output = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    @property
    def widen(self) -> nn.Linear:
        """The feed-forward's first layer."""
        return cast(nn.Linear, self.pos_ff[1])

    @property
    def narrow(self) -> nn.Linear:
        """The feed-forward's second layer."""
        return cast(nn.Linear, self.pos_ff[4])

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the layer's output."""
        x = x + self.dropout(self.attention(self.layer_norm_input(x), bias))
        x = x + self.pos_ff(x)
        return self.layer_norm_output(x)


class Transformer(nn.Module):
    """The stack of layers, under its published name."""

    def __init__(self, shape: EmformerShape, dropout: float) -> None:
        super().__init__()
        self.emformer_layers = nn.ModuleList(EmformerLayer(shape, dropout) for _ in range(shape.layers))

    @property
    def layers(self) -> list[EmformerLayer]:
        """The layers, bottom first."""
        return [layer for layer in self.emformer_layers if isinstance(layer, EmformerLayer)]


class EmformerEncoder(nn.Module):
    """Feature frames to encodings: a projection, time reduction, the layers, a projection and a norm."""

    def __init__(self, shape: EmformerShape | None = None, dropout: float = 0.1) -> None:
        super().__init__()
        self.shape = shape = shape or EmformerShape()
        self.input_linear = nn.Linear(shape.bands, shape.reduced, bias=False)
        self.transformer = Transformer(shape, dropout)
        self.output_linear = nn.Linear(shape.width, shape.encoding)
        self.layer_norm = nn.LayerNorm(shape.encoding)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encodings of whole utterances, and their lengths.

        `features` is `(batch, time + right_context, bands)`, `lengths` counts feature frames without the context at the
        end. Every segment sees its own copy of the frames ahead of it, as in a stream.
        """
        shape = self.shape
        x = self._reduce(features)
        lengths = lengths // shape.stride
        frames = x.shape[1] - shape.ahead_frames
        ahead = self._ahead_of_segments(frames, lengths)
        copies = x.take_along_dim(ahead[:, :, None], dim=1)
        x = torch.cat([copies, x[:, :frames]], dim=1)
        bias = self._bias(frames, ahead.shape[1], lengths, x)
        for layer in self.transformer.layers:
            x = layer(x, bias)
        return self._project(x[:, ahead.shape[1] :]), lengths

    def _reduce(self, features: Tensor) -> Tensor:
        stride = self.shape.stride
        usable = features.shape[1] // stride * stride
        return self.input_linear(features[:, :usable]).unflatten(1, (-1, stride)).flatten(2)

    def _project(self, x: Tensor) -> Tensor:
        return self.layer_norm(self.output_linear(x))

    def _ahead_of_segments(self, frames: int, lengths: Tensor) -> Tensor:
        """Return the positions of the frames ahead of each segment, one block after the other, for each utterance.

        Those of an utterance's last segment begin at its own end, not at that of the longest in the batch.
        """
        segment, ahead = self.shape.segment_frames, self.shape.ahead_frames
        ends = torch.arange(segment, frames + segment, segment, device=lengths.device)
        ends = torch.minimum(ends, lengths[:, None])
        return (ends[:, :, None] + torch.arange(ahead, device=lengths.device)).flatten(1)

    def _bias(self, frames: int, ahead_total: int, lengths: Tensor, x: Tensor) -> Tensor:
        """Return minus infinity for what a frame must not see: other segments' copies, the far past, the future."""
        shape, device = self.shape, x.device
        time = torch.arange(frames, device=device)
        segment_of = time // shape.segment_frames
        copies_of = torch.arange(ahead_total, device=device) // max(1, shape.ahead_frames)
        query_segment = torch.cat([copies_of, segment_of])[:, None]
        start = query_segment * shape.segment_frames
        sees_copies = query_segment == copies_of
        sees_time = (time >= start - shape.left_context) & (time < start + shape.segment_frames)
        sees_time = sees_time & (time < lengths[:, None, None])
        sees = torch.cat([sees_copies.expand(len(lengths), -1, -1), sees_time], dim=2)
        # A frame of padding that saw nothing would become NaN, so it sees itself.
        sees = sees | torch.eye(sees.shape[1], dtype=torch.bool, device=device)
        return x.new_zeros(sees.shape).masked_fill(~sees, -torch.inf)[:, None]
