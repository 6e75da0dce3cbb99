"""The recurrent transducer: an encoder of audio, a predictor of text, and a joiner that scores the next symbol.

Parameters have the names and shapes of torchaudio's `emformer_rnnt_base`, so that its checkpoint loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.checkpoint import Linear, fuse
from stopwav.models.emformer import EmformerEncoder, EmformerLayer, EmformerShape

# The published model: 4,096 word pieces and the blank, which comes last.
SYMBOLS = 4097
# Word pieces per second in read speech are 3 to 4 (LibriSpeech with 4,096 pieces: about 3.3).
TARGET_SYMBOLS_PER_S = 3.5
TOLERANCE_SYMBOLS_PER_S = 0.3
# Decoding may stop at more than this: the rate is far too high.
CUTOFF_SYMBOLS_PER_S = 4 * TARGET_SYMBOLS_PER_S
# The rate is a staircase in the bias and may have no step within the tolerance: then the nearest step is used.
MAX_CALIBRATION_STEPS = 16
# Wide enough for logits of any freshly initialised joiner, which are within a few units of 0.
MAX_BLANK_BIAS = 32.0


class NormedLstm(nn.Module):
    """An LSTM layer with a norm on its gates and on its cell, one step at a time."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.x2g = nn.Linear(width, 4 * hidden, bias=False)
        self.p2g = nn.Linear(hidden, 4 * hidden, bias=False)
        # The published model's tolerance; torch's default differs in the third digit of small gates.
        self.c_norm = nn.LayerNorm(hidden, eps=1e-3)
        self.g_norm = nn.LayerNorm(4 * hidden, eps=1e-3)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new hidden and cell values of a batch, `(batch, hidden)` each."""
        gates = self.g_norm(self.x2g(x) + self.p2g(hidden))
        input_gate, forget_gate, value, output_gate = gates.chunk(4, dim=-1)
        cell = self.c_norm(forget_gate.sigmoid() * cell + input_gate.sigmoid() * value.tanh())
        return output_gate.sigmoid() * cell.tanh(), cell


class Predictor(nn.Module):
    """The text so far to a vector: embedding, three normed LSTM layers, a projection."""

    def __init__(self, symbols: int, encoding: int, width: int = 512, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.input_layer_norm = nn.LayerNorm(width)
        self.lstm_layers = nn.ModuleList(NormedLstm(width, width) for _ in range(layers))
        self.linear = nn.Linear(width, encoding)
        self.output_layer_norm = nn.LayerNorm(encoding)

    @property
    def layers(self) -> list[NormedLstm]:
        """The LSTM layers, bottom first."""
        return [layer for layer in self.lstm_layers if isinstance(layer, NormedLstm)]

    def initial_state(self) -> Tensor:
        """Return the state before any symbol: `(layers, 2, width)`, hidden and cell of each layer."""
        weight = self.linear.weight
        return weight.new_zeros(len(self.lstm_layers), 2, weight.shape[1])

    def forward(self, symbols: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors after one more symbol each, and the new states, `(batch, layers, 2, width)`."""
        x = self.input_layer_norm(self.embedding(symbols))
        after = []
        for layer, before in zip(self.layers, states.unbind(1), strict=True):
            x, cell = layer(x, before[:, 0], before[:, 1])
            after.append(torch.stack([x, cell], dim=1))
        return self.output_layer_norm(self.linear(x)), torch.stack(after, dim=1)


class Joiner(nn.Module):
    """Encodings and predictions, added and rectified, to the scores of all symbols."""

    def __init__(self, encoding: int, symbols: int) -> None:
        super().__init__()
        self.linear = nn.Linear(encoding, symbols)

    def forward(self, encodings: Tensor, predictions: Tensor) -> Tensor:
        """Return the logits of each pair; shapes broadcast."""
        return self.linear(torch.relu(encodings + predictions))


class Transducer(nn.Module):
    """Encoder, predictor and joiner under their published names."""

    def __init__(self, shape: EmformerShape | None = None, symbols: int = SYMBOLS) -> None:
        super().__init__()
        self.transcriber = EmformerEncoder(shape)
        encoding = self.transcriber.shape.encoding
        self.predictor = Predictor(symbols, encoding)
        self.joiner = Joiner(encoding, symbols)

    @property
    def symbols(self) -> int:
        """The number of symbols, including the blank."""
        return self.joiner.linear.out_features

    @property
    def blank(self) -> int:
        """The symbol that means "nothing more in this frame": the last one."""
        return self.symbols - 1


def calibrate_blank(transducer: Transducer, symbols_per_s: Callable[[], float]) -> float:
    """Set the blank's bias so that untrained weights emit symbols as often as speech has them; return the rate.

    An untrained transducer emits up to the limit in every frame or nothing at all, and neither says anything about the
    time that decoding takes. `symbols_per_s` decodes some speech.
    """
    low, high = -MAX_BLANK_BIAS, MAX_BLANK_BIAS
    steps: list[tuple[float, float, float]] = []
    for _ in range(MAX_CALIBRATION_STEPS):
        bias = (low + high) / 2
        _set_blank_bias(transducer, bias)
        rate = symbols_per_s()
        steps.append((abs(rate - TARGET_SYMBOLS_PER_S), rate, bias))
        if steps[-1][0] <= TOLERANCE_SYMBOLS_PER_S:
            break
        low, high = (bias, high) if rate > TARGET_SYMBOLS_PER_S else (low, bias)
    _, rate, bias = min(steps)
    _set_blank_bias(transducer, bias)
    return rate


@torch.no_grad()
def _set_blank_bias(transducer: Transducer, bias: float) -> None:
    transducer.joiner.linear.bias[transducer.blank] = bias


# Libraries choose their algorithms and allocate their workspaces in the first calls, which cannot be recorded.
GRAPH_WARMUP_CALLS = 3


class Graph:
    """A function of tensors recorded as a CUDA graph: one launch instead of hundreds.

    Launches are most of the time of a small step on a large GPU. Inputs have the shapes of `examples`; the next call
    overwrites the result.
    """

    def __init__(self, function: Callable[..., Any], examples: Sequence[Tensor]) -> None:
        self.inputs = [example.clone() for example in examples]
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(GRAPH_WARMUP_CALLS):
                function(*self.inputs)
        torch.cuda.current_stream().wait_stream(warmup)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = function(*self.inputs)

    def __call__(self, *values: Tensor) -> Any:
        """Return the function's result, in the same tensors each time."""
        for buffer, value in zip(self.inputs, values, strict=True):
            buffer.copy_(value, non_blocking=True)
        self._graph.replay()
        return self._outputs


@dataclass(frozen=True)
class EncoderState:
    """The state that a stream carries from segment to segment; a step changes it in place."""

    # Keys and values: (layers, 2, left context + right context + segment, width), the ring of the past first.
    cache: Tensor
    frames: Tensor  # (1,): how many frames were written to the ring


class LayerStep:
    """One encoder layer."""

    def __init__(self, layer: EmformerLayer, kind: type[Linear]) -> None:
        attention = layer.attention
        self.heads = attention.heads
        self.norms = [layer.layer_norm_input, layer.pos_ff[0], layer.layer_norm_output]
        self.project = fuse(kind, attention.emb_to_query, attention.emb_to_key_value)
        self.out = fuse(kind, attention.out_proj)
        self.widen, self.narrow = fuse(kind, layer.widen), fuse(kind, layer.narrow)

    def __call__(self, x: Tensor, cache: Tensor, left: int, bias: Tensor) -> Tensor:
        """Return the output for `(frames, width)`, and write its keys and values to the cache after the past."""
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
    """The encoder, one segment of a stream at a time."""

    def __init__(
        self, encoder: EmformerEncoder, kind: type[Linear], graphs: bool = False, compiled: bool = False
    ) -> None:
        self.shape = encoder.shape
        self.reduce = fuse(kind, encoder.input_linear)
        self.layers = [LayerStep(layer, kind) for layer in encoder.transformer.layers]
        self.project = fuse(kind, encoder.output_linear)
        self.norm = encoder.layer_norm
        # New tensors get its device and precision.
        self._weight = encoder.layer_norm.weight.detach()
        self.dtype = self._weight.dtype
        self._ring = torch.arange(self.shape.left_context, device=self._weight.device)
        self._full_step: Callable[..., Tensor] = torch.compile(self._step, dynamic=False) if compiled else self._step
        self._graph: Graph | None = None
        state = self.initial_state()
        features = self._weight.new_zeros(self.shape.segment + self.shape.right_context, self.shape.bands)
        if graphs:
            self._graph = Graph(self._full_step, [features, state.cache, state.frames])
        elif compiled:
            # Compile while loading, not inside the first stream.
            self._full_step(features, state.cache, state.frames)

    def initial_state(self) -> EncoderState:
        """Return the state of a new stream."""
        shape = self.shape
        positions = shape.left_context + shape.ahead_frames + shape.segment_frames
        cache = self._weight.new_zeros(shape.layers, 2, positions, shape.width)
        return EncoderState(cache, torch.zeros(1, dtype=torch.long, device=cache.device))

    def __call__(self, features: Tensor, state: EncoderState) -> Tensor:
        """Return the encodings of one segment; the next call may overwrite them.

        All segments but the last have `shape.segment` frames and `shape.right_context` frames ahead of them.
        """
        if len(features) != self.shape.segment + self.shape.right_context:
            # The last segment of a stream may have any length, and each would be compiled again.
            return self._step(features, state.cache, state.frames)
        if self._graph is None:
            return self._full_step(features, state.cache, state.frames)
        encodings: Tensor = self._graph(features, state.cache, state.frames)
        state.cache.copy_(self._graph.inputs[1])
        state.frames.copy_(self._graph.inputs[2])
        return encodings

    def _step(self, features: Tensor, cache: Tensor, frames: Tensor) -> Tensor:
        shape = self.shape
        left, ahead = shape.left_context, shape.ahead_frames
        usable = len(features) // shape.stride * shape.stride
        x = self.reduce(features[:usable]).reshape(-1, shape.width)
        new = len(x) - ahead
        x = torch.cat([x[new:], x[:new]])
        bias = self._bias(frames, len(x))
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x = layer(x, layer_cache, left, bias)
        positions = (frames + torch.arange(new, device=frames.device)) % left
        cache.index_copy_(2, positions, cache[:, :, left + ahead : left + ahead + new])
        frames += new
        return self.norm(self.project(x[ahead:]))

    def _bias(self, frames: Tensor, current: int) -> Tensor:
        """Return what is added to attention scores: minus infinity for positions of the ring that are still empty."""
        empty = torch.zeros_like(self._ring, dtype=self.dtype).masked_fill(self._ring >= frames, -torch.inf)
        return torch.cat([empty, empty.new_zeros(current)])[None]


class LstmStep:
    """One LSTM layer; `recurrent` is separate, since all texts that extend a text share its result."""

    def __init__(self, layer: NormedLstm, kind: type[Linear]) -> None:
        self._input, self.recurrent = fuse(kind, layer.x2g), fuse(kind, layer.p2g)
        self._gate_norm, self._cell_norm = layer.g_norm, layer.c_norm

    def __call__(self, x: Tensor, recurrent_gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new hidden and cell values."""
        gates = self._gate_norm(self._input.plus(x, recurrent_gates))
        input_gate, forget_gate, value, output_gate = gates.chunk(4, dim=-1)
        cell = self._cell_norm(forget_gate.sigmoid() * cell + input_gate.sigmoid() * value.tanh())
        return output_gate.sigmoid() * cell.tanh(), cell


class PredictorStep:
    """The predictor, one symbol of each text at a time."""

    def __init__(self, predictor: Predictor, kind: type[Linear]) -> None:
        self.encoding = predictor.linear.out_features
        self.initial_state = predictor.initial_state()
        self._embedding = predictor.embedding
        self._norms = predictor.input_layer_norm, predictor.output_layer_norm
        self._layers = [LstmStep(layer, kind) for layer in predictor.layers]
        self._project = fuse(kind, predictor.linear)

    def recurrent_gates(self, states: Tensor) -> Tensor:
        """Return what states add to the gates: `(texts, layers, 2, width)` to `(texts, layers, 4 · width)`."""
        hidden = states[:, :, 0].unbind(1)
        return torch.stack([layer.recurrent(value) for layer, value in zip(self._layers, hidden, strict=True)], dim=1)

    def __call__(self, symbols: Tensor, states: Tensor, recurrent_gates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the predictions after one more symbol each, and the new states."""
        x = self._norms[0](self._embedding(symbols))
        after = []
        cells = states[:, :, 1].unbind(1)
        for layer, gates, cell in zip(self._layers, recurrent_gates.unbind(1), cells, strict=True):
            x, cell = layer(x, gates, cell)
            after += [x, cell]
        return self._norms[1](self._project(x)), torch.stack(after, dim=1).view_as(states)


class JoinerStep:
    """The joiner."""

    def __init__(self, joiner: Joiner, kind: type[Linear]) -> None:
        self._linear = fuse(kind, joiner.linear)

    def __call__(self, encodings: Tensor, predictions: Tensor) -> Tensor:
        """Return the logits of each pair."""
        return self._linear(torch.relu(encodings + predictions))
