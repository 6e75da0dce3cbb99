"""The Emformer for streams: one segment at a time, with the past in a cache, arranged for speed.

The arithmetic is that of `EmformerEncoder.forward`; what differs is where things lie. Keys and values of the past are a
ring, so nothing is shifted; attention does not mind the order. Nothing depends on a number that only the device knows,
so a step never waits for it and can be recorded as one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.models.emformer import EmformerEncoder, Layer
from stopwav.models.graph import Graph
from stopwav.models.weights import Linear, joined


@dataclass(frozen=True)
class EncoderState:
    """What one stream carries from segment to segment; a step changes it in place."""

    # Keys and values: (layers, 2, left context + right context + segment, width), the ring of the past first.
    cache: Tensor
    frames: Tensor  # (1,): how many frames went into the ring


class LayerStep:
    """The weights of one layer."""

    def __init__(self, layer: Layer, kind: type[Linear]) -> None:
        attention = layer.attention
        self.heads = attention.heads
        self.norms = [layer.layer_norm_input, layer.pos_ff[0], layer.layer_norm_output]
        self.project = joined(kind, attention.emb_to_query, attention.emb_to_key_value)
        self.out = joined(kind, attention.out_proj)
        self.widen, self.narrow = joined(kind, layer.widen), joined(kind, layer.narrow)

    def __call__(self, x: Tensor, cache: Tensor, left: int, bias: Tensor) -> Tensor:
        """The layer's output for `(frames, width)`; its keys and values go into the cache behind the past."""
        frames, width = x.shape
        query, key_value = self.project(self.norms[0](x)).split([width, 2 * width], dim=-1)
        cache[:, left : left + frames] = key_value.unflatten(-1, (2, width)).transpose(0, 1)
        keys, values = cache[:, : left + frames].unflatten(-1, (self.heads, -1)).transpose(1, 2)
        query = query.unflatten(-1, (self.heads, -1)).transpose(0, 1)
        attended = functional.scaled_dot_product_attention(query[None], keys[None], values[None], attn_mask=bias)
        x = self.out.plus(attended[0].transpose(0, 1).reshape(frames, width), x)
        x = self.narrow.plus(self.widen.gelu(self.norms[1](x)), x)
        return self.norms[2](x)


class EncoderStep:
    """The encoder of an engine's streams."""

    def __init__(
        self, encoder: EmformerEncoder, kind: type[Linear], graphs: bool = False, compiled: bool = False
    ) -> None:
        self.shape = encoder.shape
        self._reduce = joined(kind, encoder.input_linear)
        self._layers = [LayerStep(layer, kind) for layer in encoder.transformer.layers]
        self._project = joined(kind, encoder.output_linear)
        self._norm = encoder.layer_norm
        self._like = encoder.layer_norm.weight.detach()
        self.dtype = self._like.dtype
        self._ring = torch.arange(self.shape.left_context, device=self._like.device)
        self._plain: Callable[..., Tensor] = torch.compile(self._step, dynamic=False) if compiled else self._step
        self._graph: Graph | None = None
        state = self.initial_state()
        features = self._like.new_zeros(self.shape.segment + self.shape.right_context, self.shape.bands)
        if graphs:
            self._graph = Graph(self._plain, [features, state.cache, state.frames])
        elif compiled:
            # Compiled when it is loaded, and not inside the first stream.
            self._plain(features, state.cache, state.frames)

    def initial_state(self) -> EncoderState:
        """The state of a stream that has heard nothing."""
        shape = self.shape
        places = shape.left_context + shape.ahead_frames + shape.segment_frames
        cache = self._like.new_zeros(shape.layers, 2, places, shape.width)
        return EncoderState(cache, torch.zeros(1, dtype=torch.long, device=cache.device))

    def __call__(self, features: Tensor, state: EncoderState) -> Tensor:
        """The encodings of one segment; all segments but the last have `shape.segment` frames and those ahead of them.

        What is returned may be overwritten by the next call.
        """
        if len(features) != self.shape.segment + self.shape.right_context:
            # The last segment of a stream has any length: each would be compiled anew.
            return self._step(features, state.cache, state.frames)
        if self._graph is None:
            return self._plain(features, state.cache, state.frames)
        encodings: Tensor = self._graph(features, state.cache, state.frames)
        state.cache.copy_(self._graph.inputs[1])
        state.frames.copy_(self._graph.inputs[2])
        return encodings

    def _step(self, features: Tensor, cache: Tensor, frames: Tensor) -> Tensor:
        shape = self.shape
        left, ahead = shape.left_context, shape.ahead_frames
        usable = len(features) // shape.stride * shape.stride
        x = self._reduce(features[:usable]).reshape(-1, shape.width)
        new = len(x) - ahead
        x = torch.cat([x[new:], x[:new]])
        bias = self._bias(frames, len(x))
        for layer, layer_cache in zip(self._layers, cache, strict=True):
            x = layer(x, layer_cache, left, bias)
        places = (frames + torch.arange(new, device=frames.device)) % left
        cache.index_copy_(2, places, cache[:, :, left + ahead : left + ahead + new])
        frames += new
        return self._norm(self._project(x[ahead:]))

    def _bias(self, frames: Tensor, now: int) -> Tensor:
        """What is added to attention scores: minus infinity for places of the ring that nothing was written to yet."""
        empty = torch.zeros_like(self._ring, dtype=self._like.dtype).masked_fill(self._ring >= frames, -torch.inf)
        return torch.cat([empty, empty.new_zeros(now)])[None]
