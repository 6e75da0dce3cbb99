"""The networks of the LSTM family: the bidirectional encoder, and the decoder with location-aware attention.

The layouts are ESPnet's `RNNP`, and `RNNDecoder` with `AttLoc`: a frame is scored by its content, by the decoder's
state, and by the attention weights of the previous token, seen through a few filters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# ESPnet's sharpening of the attention's softmax.
SHARPNESS = 2.0


@dataclass(frozen=True)
class LstmShape:
    """The sizes of the LSTM family; the defaults are those of the published comparison, to the parameter."""

    bands: int = 80
    width: int = 320
    # How many frames become one after each layer. The parameter counts do not determine it: this is ESPnet's default.
    steps: tuple[int, ...] = (2, 2, 1, 1)
    filters: int = 10
    filter_frames: int = 201
    tokens: int = 27
    max_frames: int | None = None  # an utterance may have any length

    def frames(self, features: int) -> int:
        """Return the number of encoder frames of so many feature frames; a group that is not full counts."""
        for step in self.steps:
            features = -(-features // step)
        return features

    @property
    def min_features(self) -> int:
        """The fewest feature frames that make one encoder frame."""
        return 1


class LstmLayer(nn.Module):
    """A bidirectional LSTM, every `step`th frame of it, and a projection."""

    def __init__(self, inputs: int, width: int, step: int) -> None:
        super().__init__()
        self.step = step
        self.lstm = nn.LSTM(inputs, width, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of a batch and the number of frames of each utterance; `lengths` are on the host."""
        # Packed, so that the backward direction begins at an utterance's own end.
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.project(x[:, :: self.step]), (lengths + self.step - 1) // self.step


class BlstmEncoder(nn.Module):
    """Feature frames to encodings."""

    def __init__(self, shape: LstmShape) -> None:
        super().__init__()
        inputs = (shape.bands, *[shape.width] * (len(shape.steps) - 1))
        self.layers = nn.ModuleList(
            LstmLayer(size, shape.width, step) for size, step in zip(inputs, shape.steps, strict=True)
        )

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encodings of a batch, 0 in the padding, and the number of frames of each utterance."""
        x, frames = features, lengths.cpu()
        for layer in self.layers:
            if layer is not self.layers[0]:
                x = x.tanh()
            x, frames = layer(x, frames)
        frames = frames.to(x.device)
        padding = torch.arange(x.shape[1], device=x.device) >= frames[:, None]
        return x.masked_fill(padding[:, :, None], 0.0), frames


@dataclass
class LocationState:
    """The state of the decoder for some utterances, `(utterances, …)` each."""

    encodings: Tensor  # (…, time, width)
    keys: Tensor  # the frames as attention sees them, (…, time, width)
    padding: Tensor  # (…, 1, time)
    hidden: Tensor  # (…, beam, width)
    cell: Tensor  # (…, beam, width)
    weights: Tensor  # the attention weights of the previous token, (…, beam, time)

    def reorder(self, parents: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance: `(utterances, beam)`."""
        self.hidden, self.cell, self.weights = (
            tensor.take_along_dim(parents[:, :, None], dim=1) for tensor in (self.hidden, self.cell, self.weights)
        )

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        for name, tensor in vars(self).items():
            setattr(self, name, tensor[utterances])


class LocationAttention(nn.Module):
    """Attention of each hypothesis over the audio."""

    def __init__(self, shape: LstmShape) -> None:
        super().__init__()
        width = shape.width
        self.frame = nn.Linear(width, width)
        self.state = nn.Linear(width, width, bias=False)
        self.location = nn.Conv2d(
            1, shape.filters, (1, shape.filter_frames), padding=(0, shape.filter_frames // 2), bias=False
        )
        self.filter = nn.Linear(shape.filters, width, bias=False)
        self.score = nn.Linear(width, 1)

    def forward(self, state: LocationState) -> tuple[Tensor, Tensor]:
        """Return the attended values, `(utterances, beam, width)`, and the weights, `(utterances, beam, time)`."""
        utterances, beam, time = state.weights.shape
        located = self.location(state.weights.reshape(-1, 1, 1, time))[:, :, 0].transpose(1, 2)
        located = self.filter(located).unflatten(0, (utterances, beam))
        mixed = located.add_(state.keys[:, None]).add_(self.state(state.hidden)[:, :, None])
        scores = self.score(mixed.tanh_())[..., 0].masked_fill(state.padding, -math.inf)
        weights = (SHARPNESS * scores).softmax(-1)
        return weights @ state.encodings, weights


class LocationDecoder(nn.Module):
    """Texts so far and encodings to the log-probabilities of the next token, for all hypotheses of a batch at once."""

    def __init__(self, shape: LstmShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.tokens, shape.width)
        self.attention = LocationAttention(shape)
        self.lstm = nn.LSTMCell(2 * shape.width, shape.width)
        self.output = nn.Linear(shape.width, shape.tokens)

    def start(self, encodings: Tensor, lengths: Tensor, beam: int) -> LocationState:
        """Return the state before the first token, with equal attention to all frames."""
        utterances, time, width = encodings.shape
        padding = (torch.arange(time, device=encodings.device) >= lengths[:, None])[:, None]
        uniform = (1 / lengths).to(encodings.dtype)[:, None, None].expand(utterances, beam, time)
        zeros = encodings.new_zeros(utterances, beam, width)
        weights = uniform.masked_fill(padding, 0.0)
        return LocationState(encodings, self.attention.frame(encodings), padding, zeros, zeros, weights)

    def forward(self, tokens: Tensor, state: LocationState) -> Tensor:
        """Score what may follow these tokens, `(utterances, beam)` to `(…, tokens)`, and update the state."""
        attended, state.weights = self.attention(state)
        x = torch.cat([self.embedding(tokens), attended], dim=-1).flatten(0, 1)
        hidden, cell = self.lstm(x, (state.hidden.flatten(0, 1), state.cell.flatten(0, 1)))
        state.hidden, state.cell = hidden.view_as(state.hidden), cell.view_as(state.cell)
        logits = self.output(state.hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
