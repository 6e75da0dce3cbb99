"""The fused loss in plain PyTorch on any device: utterance by utterance, some frames of it at a time.

Paths keep to a band of the lattice, and more so the better the model: the backward pass leaves out the places of a
frame through which no path of any weight goes. What it leaves out is too small to change the last bit of a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.losses.job import Inputs, Job
from stopwav.losses.precision import add_product
from stopwav.losses.recursion import posteriors

# Cells of which logits exist at a time on a CPU: few enough that they and their activations stay in its caches, and
# enough that a matrix product is not all overhead.
CHUNK_CELLS = 2048


@dataclass(frozen=True)
class _Chunk:
    """Some frames of one utterance, and some of its places: from `first` and `low` to before `end` and `high`.

    `labels` of the places have a label to go on with: all of them, or all but the one that is the utterance's last.
    """

    index: int
    first: int
    end: int
    low: int
    high: int
    labels: int

    @property
    def here(self) -> tuple[int, slice, slice]:
        """The chunk's cells in a tensor `(N, T, U + 1)`."""
        return self.index, slice(self.first, self.end), slice(self.low, self.high)

    @property
    def labelled(self) -> tuple[int, slice, slice]:
        """Those of them that have a label."""
        return self.index, slice(self.first, self.end), slice(self.low, self.low + self.labels)


def losses(inputs: Inputs, job: Job) -> tuple[Tensor, tuple[Tensor, ...]]:
    """-log p of every utterance, and the posteriors of all arcs."""
    joiner = _Joiner(inputs, job)
    wide = job.arithmetic.wide
    batch, frames, _ = inputs.encodings.shape
    blank = inputs.encodings.new_zeros(batch, frames, inputs.predictions.shape[1], dtype=wide)
    label = torch.zeros_like(blank)
    for chunk in _all_chunks(job):
        hidden = joiner.hidden(chunk).to(job.arithmetic.dtype)
        scores = torch.log_softmax(joiner.logits(hidden), dim=-1, dtype=wide)
        scores = scores.view(chunk.end - chunk.first, chunk.high - chunk.low, -1)
        blank[chunk.here] = scores[..., job.blank]
        label[chunk.labelled] = scores[:, : chunk.labels].gather(2, joiner.labels(chunk))[..., 0]
    found = posteriors(blank, label, job.lengths).rounded(wide)
    return -found.total, (found.blank, found.label)


def gradients(inputs: Inputs, job: Job, kept: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input in the wide type."""
    joiner = _Joiner(inputs, job)
    wide = job.arithmetic.wide
    to_blank = -grad_losses[:, None, None] * kept[0]
    to_label = -grad_losses[:, None, None] * (1 + job.fastemit_lambda) * kept[1]
    tensors = (inputs.encodings, inputs.predictions, inputs.weight, inputs.bias)
    grads = Inputs(*(torch.zeros_like(one, dtype=wide) for one in tensors))
    for chunk in _band_chunks(job, kept[0] + kept[1]):
        active = joiner.hidden(chunk)
        hidden = active.to(job.arithmetic.dtype)
        share = joiner.logit_gradient(hidden, chunk, to_blank[chunk.here], to_label[chunk.here])
        grads.bias.add_(share.sum(dim=0))
        share = share.to(job.arithmetic.dtype)
        add_product(grads.weight, share.T, hidden)
        back = joiner.through_activation((share @ joiner.weight).to(wide), active)
        back = back.view(chunk.end - chunk.first, -1, hidden.shape[1])
        grads.encodings[chunk.index, chunk.first : chunk.end] = back.sum(dim=1)
        grads.predictions[chunk.index, chunk.low : chunk.high] += back.sum(dim=0)
    return grads


class _Joiner:
    """The joiner of a job, chunk by chunk."""

    def __init__(self, inputs: Inputs, job: Job) -> None:
        self._inputs, self._job = inputs, job
        self.weight = inputs.weight.to(job.arithmetic.dtype)
        self._bias = inputs.bias.to(job.arithmetic.dtype)

    def hidden(self, chunk: _Chunk) -> Tensor:
        """The activations of a chunk in the wide type: `(cells, D)`."""
        wide = self._job.arithmetic.wide
        encodings = self._inputs.encodings[chunk.index, chunk.first : chunk.end, None].to(wide)
        hidden = encodings + self._inputs.predictions[chunk.index, None, chunk.low : chunk.high].to(wide)
        if self._job.activation == "tanh":
            hidden.tanh_()
        elif self._job.activation == "relu":
            hidden.relu_()
        return hidden.flatten(0, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of a chunk: `(cells, V)`."""
        return torch.addmm(self._bias, hidden, self.weight.T)

    def labels(self, chunk: _Chunk) -> Tensor:
        """The next label of each place that has one: `(frames, labels, 1)`."""
        wanted = self._job.targets[chunk.index, chunk.low : chunk.low + chunk.labels]
        return wanted[None, :, None].expand(chunk.end - chunk.first, -1, 1)

    def logit_gradient(self, hidden: Tensor, chunk: _Chunk, to_blank: Tensor, to_label: Tensor) -> Tensor:
        """The gradient of a chunk's logits, `(cells, V)`: what goes to blank and label, less each symbol's share."""
        share = torch.softmax(self.logits(hidden), dim=-1, dtype=self._job.arithmetic.wide)
        share.mul_(-(to_blank + to_label).reshape(-1, 1))
        by_place = share.view(chunk.end - chunk.first, chunk.high - chunk.low, -1)
        by_place[..., self._job.blank] += to_blank
        by_place[:, : chunk.labels].scatter_add_(2, self.labels(chunk), to_label[:, : chunk.labels, None])
        return share

    def through_activation(self, grad: Tensor, hidden: Tensor) -> Tensor:
        """The gradient of what the activation was given."""
        if self._job.activation == "tanh":
            return torch.ops.aten.tanh_backward(grad, hidden)
        if self._job.activation == "relu":
            return torch.ops.aten.threshold_backward(grad, hidden, 0)
        return grad


def _all_chunks(job: Job) -> Iterator[_Chunk]:
    """Chunks that cover all real cells, in order."""
    most = job.chunk_cells or CHUNK_CELLS
    for index, (frames, labels) in enumerate(job.lengths.pairs()):
        step = max(1, most // (labels + 1))
        for first in range(0, frames, step):
            yield _Chunk(index, first, min(first + step, frames), 0, labels + 1, labels)


def _band_chunks(job: Job, taken: Tensor) -> Iterator[_Chunk]:
    """Chunks that cover every cell through which a path of any weight goes, in order."""
    most = job.chunk_cells or CHUNK_CELLS
    active = taken != 0
    lows = active.int().argmax(dim=2).tolist()
    highs = (active.shape[2] - active.flip(2).int().argmax(dim=2)).tolist()
    for index, (frames, labels) in enumerate(job.lengths.pairs()):
        first, low, high = 0, labels + 1, 0
        for frame in range(frames):
            wider = min(low, lows[index][frame]), max(high, highs[index][frame])
            if frame > first and (frame + 1 - first) * (wider[1] - wider[0]) > most:
                yield _Chunk(index, first, frame, low, high, min(high, labels) - low)
                first, wider = frame, (lows[index][frame], highs[index][frame])
            low, high = wider
        if frames:
            yield _Chunk(index, first, frames, low, high, min(high, labels) - low)
