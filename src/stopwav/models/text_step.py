"""The predictor and the joiner for search: the arithmetic of `Predictor` and `Joiner` in fewer and larger products."""

from __future__ import annotations

import torch
from torch import Tensor

from stopwav.models.transducer import Joiner, NormedLstm, Predictor
from stopwav.models.weights import Linear, joined


class LstmStep:
    """The weights of one LSTM layer, those of its past apart: one past serves all texts that grow from it."""

    def __init__(self, layer: NormedLstm, kind: type[Linear]) -> None:
        self._input, self.past = joined(kind, layer.x2g), joined(kind, layer.p2g)
        self._gate_norm, self._cell_norm = layer.g_norm, layer.c_norm

    def __call__(self, x: Tensor, past: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """The new hidden and cell values."""
        enter, forget, value, leave = self._gate_norm(self._input.plus(x, past)).chunk(4, dim=-1)
        cell = self._cell_norm(forget.sigmoid() * cell + enter.sigmoid() * value.tanh())
        return leave.sigmoid() * cell.tanh(), cell


class PredictorStep:
    """The predictor, one symbol of each text at a time."""

    def __init__(self, predictor: Predictor, kind: type[Linear]) -> None:
        self.encoding = predictor.linear.out_features
        self.initial_state = predictor.initial_state()
        self._embedding = predictor.embedding
        self._norms = predictor.input_layer_norm, predictor.output_layer_norm
        self._layers = [LstmStep(layer, kind) for layer in predictor.layers]
        self._project = joined(kind, predictor.linear)

    def pasts(self, states: Tensor) -> Tensor:
        """What states `(texts, layers, 2, width)` add to the gates of the next step, `(texts, layers, 4 · width)`."""
        hidden = states[:, :, 0].unbind(1)
        return torch.stack([layer.past(one) for layer, one in zip(self._layers, hidden, strict=True)], dim=1)

    def __call__(self, symbols: Tensor, states: Tensor, pasts: Tensor) -> tuple[Tensor, Tensor]:
        """The predictions after one more symbol each, and the new states."""
        x = self._norms[0](self._embedding(symbols))
        after = []
        for layer, past, cell in zip(self._layers, pasts.unbind(1), states[:, :, 1].unbind(1), strict=True):
            x, cell = layer(x, past, cell)
            after += [x, cell]
        return self._norms[1](self._project(x)), torch.stack(after, dim=1).view_as(states)


class JoinerStep:
    """The joiner."""

    def __init__(self, joiner: Joiner, kind: type[Linear]) -> None:
        self._linear = joined(kind, joiner.linear)

    def __call__(self, encodings: Tensor, predictions: Tensor) -> Tensor:
        """The logits of each pair."""
        return self._linear(torch.relu(encodings + predictions))
