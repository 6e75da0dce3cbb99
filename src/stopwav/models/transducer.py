"""The recurrent transducer: an encoder of audio, a predictor of text, and a joiner that scores the next symbol.

Parameters have the names and shapes of torchaudio's `emformer_rnnt_base`, so that its checkpoint loads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from stopwav.models.emformer import EmformerEncoder, EmformerShape

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
