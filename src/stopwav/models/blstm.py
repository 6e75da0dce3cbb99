"""The LSTM encoder: bidirectional layers, each with a projection, some of which pass on every second frame only.

The layout is ESPnet's `RNNP`. Sequences are packed, so that the backward direction begins at an utterance's own end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from stopwav.models.hybrid_shapes import LstmShape


class Layer(nn.Module):
    """A bidirectional LSTM, every `step`th frame of it, and a projection."""

    def __init__(self, inputs: int, width: int, step: int) -> None:
        super().__init__()
        self.step = step
        self.lstm = nn.LSTM(inputs, width, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The output of a batch, and how many frames each utterance has; `lengths` are on the host."""
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.project(x[:, :: self.step]), (lengths + self.step - 1) // self.step


class BlstmEncoder(nn.Module):
    """Feature frames to encodings."""

    def __init__(self, shape: LstmShape) -> None:
        super().__init__()
        self.shape = shape
        inputs = (shape.bands, *[shape.width] * (len(shape.steps) - 1))
        self.layers = nn.ModuleList(
            Layer(size, shape.width, step) for size, step in zip(inputs, shape.steps, strict=True)
        )

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The encodings of a batch, 0 in the padding, and how many frames each utterance has."""
        x, frames = features, lengths.cpu()
        for layer in self.layers:
            if layer is not self.layers[0]:
                x = x.tanh()
            x, frames = layer(x, frames)
        frames = frames.to(x.device)
        padding = torch.arange(x.shape[1], device=x.device) >= frames[:, None]
        return x.masked_fill(padding[:, :, None], 0.0), frames
