"""The LSTM decoder with location-aware attention, one token at a time for all hypotheses of all utterances at once.

The layout is ESPnet's `RNNDecoder` with `AttLoc`: a frame is scored by what it holds, by the decoder's state, and by
where attention stood at the token before, seen through a few filters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stopwav.models.hybrid_shapes import LstmShape

# ESPnet's sharpening of the attention's softmax.
SHARPNESS = 2.0


@dataclass
class LocationState:
    """What the decoder remembers of some utterances, `(utterances, …)` each."""

    encodings: Tensor  # (…, time, width)
    keys: Tensor  # what the frames say to the attention, (…, time, width)
    padding: Tensor  # (…, 1, time)
    hidden: Tensor  # (…, beam, width)
    cell: Tensor  # (…, beam, width)
    weights: Tensor  # where attention stood, (…, beam, time)

    def reorder(self, parents: Tensor) -> None:
        """Let every hypothesis go on from another one of its utterance: `(utterances, beam)`."""
        self.hidden, self.cell, self.weights = (
            tensor.take_along_dim(parents[:, :, None], dim=1) for tensor in (self.hidden, self.cell, self.weights)
        )

    def keep(self, utterances: Tensor) -> None:
        """Forget all but some utterances."""
        for name, tensor in vars(self).items():
            setattr(self, name, tensor[utterances])


class LocationAttention(nn.Module):
    """One look at the audio for each hypothesis."""

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
        """What is seen, `(utterances, beam, width)`, and where, `(utterances, beam, time)`."""
        utterances, beam, time = state.weights.shape
        located = self.location(state.weights.reshape(-1, 1, 1, time))[:, :, 0].transpose(1, 2)
        located = self.filter(located).unflatten(0, (utterances, beam))
        mixed = located.add_(state.keys[:, None]).add_(self.state(state.hidden)[:, :, None])
        scores = self.score(mixed.tanh_())[..., 0].masked_fill(state.padding, -math.inf)
        weights = (SHARPNESS * scores).softmax(-1)
        return weights @ state.encodings, weights


class LocationDecoder(nn.Module):
    """Texts so far and encodings to the log-probabilities of the next token."""

    def __init__(self, shape: LstmShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.tokens, shape.width)
        self.attention = LocationAttention(shape)
        self.lstm = nn.LSTMCell(2 * shape.width, shape.width)
        self.output = nn.Linear(shape.width, shape.tokens)

    def start(self, encodings: Tensor, lengths: Tensor, beam: int) -> LocationState:
        """The state before the first token: attention stands everywhere alike."""
        utterances, time, width = encodings.shape
        padding = (torch.arange(time, device=encodings.device) >= lengths[:, None])[:, None]
        everywhere = (1 / lengths).to(encodings.dtype)[:, None, None].expand(utterances, beam, time)
        nothing = encodings.new_zeros(utterances, beam, width)
        weights = everywhere.masked_fill(padding, 0.0)
        return LocationState(encodings, self.attention.frame(encodings), padding, nothing, nothing, weights)

    def forward(self, tokens: Tensor, state: LocationState) -> Tensor:
        """What may follow these tokens, `(utterances, beam)` to `(utterances, beam, tokens)`; the state goes on."""
        seen, state.weights = self.attention(state)
        x = torch.cat([self.embedding(tokens), seen], dim=-1).flatten(0, 1)
        hidden, cell = self.lstm(x, (state.hidden.flatten(0, 1), state.cell.flatten(0, 1)))
        state.hidden, state.cell = hidden.view_as(state.hidden), cell.view_as(state.cell)
        logits = self.output(state.hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
