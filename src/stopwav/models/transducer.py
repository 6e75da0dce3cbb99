"""The recurrent transducer: an encoder of audio, a predictor of text, and a joiner that scores the next symbol.

Parameters have the names and shapes of torchaudio's `emformer_rnnt_base`, so that its checkpoint loads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stopwav.models.emformer import EmformerEncoder, EmformerShape

# The published model: 4,096 word pieces and the blank, which comes last.
SYMBOLS = 4097


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
        """The new hidden and cell values of a batch, `(batch, hidden)` each."""
        gates = self.g_norm(self.x2g(x) + self.p2g(hidden))
        enter, forget, value, leave = gates.chunk(4, dim=-1)
        cell = self.c_norm(forget.sigmoid() * cell + enter.sigmoid() * value.tanh())
        return leave.sigmoid() * cell.tanh(), cell


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
        """The state before any symbol: `(layers, 2, width)`, hidden and cell of each layer."""
        weight = self.linear.weight
        return weight.new_zeros(len(self.lstm_layers), 2, weight.shape[1])

    def forward(self, symbols: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors after one more symbol each, and the new states: `(batch,)` and `(batch, layers, 2, width)`."""
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
        """The logits of each pair; shapes broadcast."""
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
        """How many symbols there are, the blank among them."""
        return self.joiner.linear.out_features

    @property
    def blank(self) -> int:
        """The symbol that stands for "nothing more in this frame": the last one."""
        return self.symbols - 1
