"""The fused loss in plain PyTorch on any device: utterance by utterance, some frames at a time.

The better the model, the narrower the band of the lattice that its paths stay in: the backward pass skips the positions
of a frame that no path of any weight visits. What it skips is too small to change the last bit of a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.losses.backend import Arguments, Inputs
from stopwav.losses.precision import add_product
from stopwav.losses.recursion import posteriors

# Cells whose logits exist at a time on a CPU: few enough that they and their activations stay in its caches, and enough
# that a matrix product is not all overhead.
CHUNK_CELLS = 2048


@dataclass(frozen=True)
class _Chunk:
    """Frames `first` to `end` of one utterance, and its label positions `low` to `high`, both ends exclusive.

    `labels` of the positions have a next label: all of them, or all but the last of the utterance.
    """

    index: int
    first: int
    end: int
    low: int
    high: int
    labels: int

    @property
    def cells(self) -> tuple[int, slice, slice]:
        """The index of the chunk's cells in a tensor `(N, T, U + 1)`."""
        return self.index, slice(self.first, self.end), slice(self.low, self.high)

    @property
    def labelled_cells(self) -> tuple[int, slice, slice]:
        """The index of those cells that have a next label."""
        return self.index, slice(self.first, self.end), slice(self.low, self.low + self.labels)


def losses(inputs: Inputs, arguments: Arguments) -> tuple[Tensor, tuple[Tensor, ...]]:
    """-log p of every utterance, and the posteriors of all arcs."""
    joiner = _Joiner(inputs, arguments)
    sum_dtype = arguments.arithmetic.sum_dtype
    batch, frames, _ = inputs.encodings.shape
    blank = inputs.encodings.new_zeros(batch, frames, inputs.predictions.shape[1], dtype=sum_dtype)
    label = torch.zeros_like(blank)
    for chunk in _all_chunks(arguments):
        hidden = joiner.hidden(chunk).to(arguments.arithmetic.dtype)
        scores = torch.log_softmax(joiner.logits(hidden), dim=-1, dtype=sum_dtype)
        scores = scores.view(chunk.end - chunk.first, chunk.high - chunk.low, -1)
        blank[chunk.cells] = scores[..., arguments.blank]
        label[chunk.labelled_cells] = scores[:, : chunk.labels].gather(2, joiner.labels(chunk))[..., 0]
    arcs = posteriors(blank, label, arguments.lengths).rounded(sum_dtype)
    return -arcs.total, (arcs.blank, arcs.label)


def gradients(inputs: Inputs, arguments: Arguments, saved: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input, in the type of the sums."""
    joiner = _Joiner(inputs, arguments)
    sum_dtype = arguments.arithmetic.sum_dtype
    blank_posteriors, label_posteriors = saved
    to_blank = -grad_losses[:, None, None] * blank_posteriors
    to_label = -grad_losses[:, None, None] * (1 + arguments.fastemit_lambda) * label_posteriors
    tensors = (inputs.encodings, inputs.predictions, inputs.weight, inputs.bias)
    grads = Inputs(*(torch.zeros_like(tensor, dtype=sum_dtype) for tensor in tensors))
    for chunk in _band_chunks(arguments, blank_posteriors + label_posteriors):
        activations = joiner.hidden(chunk)
        hidden = activations.to(arguments.arithmetic.dtype)
        logit_grad = joiner.logit_gradient(hidden, chunk, to_blank[chunk.cells], to_label[chunk.cells])
        grads.bias.add_(logit_grad.sum(dim=0))
        logit_grad = logit_grad.to(arguments.arithmetic.dtype)
        add_product(grads.weight, logit_grad.T, hidden)
        cell_grad = joiner.activation_gradient((logit_grad @ joiner.weight).to(sum_dtype), activations)
        cell_grad = cell_grad.view(chunk.end - chunk.first, -1, hidden.shape[1])
        grads.encodings[chunk.index, chunk.first : chunk.end] = cell_grad.sum(dim=1)
        grads.predictions[chunk.index, chunk.low : chunk.high] += cell_grad.sum(dim=0)
    return grads


class _Joiner:
    """The joiner of a batch, chunk by chunk."""

    def __init__(self, inputs: Inputs, arguments: Arguments) -> None:
        self._inputs, self._arguments = inputs, arguments
        self.weight = inputs.weight.to(arguments.arithmetic.dtype)
        self._bias = inputs.bias.to(arguments.arithmetic.dtype)

    def hidden(self, chunk: _Chunk) -> Tensor:
        """The activations of a chunk, in the type of the sums: `(cells, D)`."""
        sum_dtype = self._arguments.arithmetic.sum_dtype
        encodings = self._inputs.encodings[chunk.index, chunk.first : chunk.end, None].to(sum_dtype)
        hidden = encodings + self._inputs.predictions[chunk.index, None, chunk.low : chunk.high].to(sum_dtype)
        if self._arguments.activation == "tanh":
            hidden.tanh_()
        elif self._arguments.activation == "relu":
            hidden.relu_()
        return hidden.flatten(0, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of a chunk: `(cells, V)`."""
        return torch.addmm(self._bias, hidden, self.weight.T)

    def labels(self, chunk: _Chunk) -> Tensor:
        """The next label of each position that has one: `(frames, labels, 1)`."""
        labels = self._arguments.targets[chunk.index, chunk.low : chunk.low + chunk.labels]
        return labels[None, :, None].expand(chunk.end - chunk.first, -1, 1)

    def logit_gradient(self, hidden: Tensor, chunk: _Chunk, to_blank: Tensor, to_label: Tensor) -> Tensor:
        """The gradient of a chunk's logits, `(cells, V)`, from those of the cells' blank and label scores."""
        grad = torch.softmax(self.logits(hidden), dim=-1, dtype=self._arguments.arithmetic.sum_dtype)
        grad.mul_(-(to_blank + to_label).reshape(-1, 1))
        by_position = grad.view(chunk.end - chunk.first, chunk.high - chunk.low, -1)
        by_position[..., self._arguments.blank] += to_blank
        by_position[:, : chunk.labels].scatter_add_(2, self.labels(chunk), to_label[:, : chunk.labels, None])
        return grad

    def activation_gradient(self, grad: Tensor, activations: Tensor) -> Tensor:
        """The gradient of the activation's input, from that of its output."""
        if self._arguments.activation == "tanh":
            return torch.ops.aten.tanh_backward(grad, activations)
        if self._arguments.activation == "relu":
            return torch.ops.aten.threshold_backward(grad, activations, 0)
        return grad


def _all_chunks(arguments: Arguments) -> Iterator[_Chunk]:
    """Chunks that cover all real cells, in order."""
    max_cells = arguments.chunk_cells or CHUNK_CELLS
    for index, (frames, labels) in enumerate(arguments.lengths.pairs()):
        step = max(1, max_cells // (labels + 1))
        for first in range(0, frames, step):
            yield _Chunk(index, first, min(first + step, frames), 0, labels + 1, labels)


def _band_chunks(arguments: Arguments, visits: Tensor) -> Iterator[_Chunk]:
    """Chunks that cover every cell that a path of any weight visits, in order."""
    max_cells = arguments.chunk_cells or CHUNK_CELLS
    active = visits != 0
    lows = active.int().argmax(dim=2).tolist()
    highs = (active.shape[2] - active.flip(2).int().argmax(dim=2)).tolist()
    for index, (frames, labels) in enumerate(arguments.lengths.pairs()):
        first, low, high = 0, labels + 1, 0
        for frame in range(frames):
            wider = min(low, lows[index][frame]), max(high, highs[index][frame])
            if frame > first and (frame + 1 - first) * (wider[1] - wider[0]) > max_cells:
                yield _Chunk(index, first, frame, low, high, min(high, labels) - low)
                first, wider = frame, (lows[index][frame], highs[index][frame])
            low, high = wider
        if frames:
            yield _Chunk(index, first, frames, low, high, min(high, labels) - low)
