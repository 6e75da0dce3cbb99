"""Sums over all paths of a transducer's lattice, in plain PyTorch on any device, a whole batch and diagonal at a time.

Each step of a path emits a blank or a label. In the standard topology a label stays in its frame, so the cells that are
equally many steps from the start form an anti-diagonal; with one symbol per frame every step moves to the next frame,
so they form a frame. Arranged by steps, both topologies have the same recursion:

    alpha[s + 1, u] = log(exp(alpha[s, u] + blank[s, u]) + exp(alpha[s, u - 1] + label[s, u - 1]))

Everything is in float64: the scores of an utterance add up to thousands, of which float32 keeps three decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.losses.lengths import Lengths

Topology = Literal["standard", "one-symbol-per-frame"]
TOPOLOGIES = ("standard", "one-symbol-per-frame")
MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class Posteriors:
    """The log-probability of each utterance, and the probability that its path takes each cell's blank and label.

    `total` is `(batch,)`; `blank` and `label` are `(batch, frames, labels + 1)`, zero outside of an utterance.
    """

    total: Tensor
    blank: Tensor
    label: Tensor

    def rounded(self, dtype: torch.dtype) -> Posteriors:
        """The same in another type, with zeros for what is below its rounding.

        The posteriors of a frame add up to at least one, so values below the square of the rounding do not change a
        gradient. Most cells of a large lattice have such values, many of them denormal, which a CPU multiplies a
        hundred times slower.
        """
        tiny = torch.finfo(dtype).eps ** 2
        blank, label = (arcs.to(dtype).masked_fill_(arcs <= tiny, 0) for arcs in (self.blank, self.label))
        return Posteriors(self.total.to(dtype), blank, label)


@dataclass(frozen=True)
class _StepScores:
    """Scores by steps, `(steps, batch, labels + 1)`, minus infinity where no path goes, and where each path ends."""

    blank: Tensor
    label: Tensor
    ends: Tensor
    labels: Tensor

    def forward(self, combine: str = "logaddexp") -> Tensor:
        """The combined scores of the paths from the start to each cell: `(steps + 1, batch, labels + 1)`."""
        join = getattr(torch, combine)
        alpha = self.blank.new_full((len(self.blank) + 1, *self.blank.shape[1:]), MINUS_INFINITY)
        alpha[0, :, 0] = 0
        rows = alpha.unbind()
        for row, following, blank, label in zip(rows, rows[1:], self.blank, self.label, strict=False):
            torch.add(row, blank, out=following)
            following[:, 1:] = join(following[:, 1:], row[:, :-1] + label[:, :-1])
        return alpha

    def backward(self) -> Tensor:
        """The combined scores of the paths from each cell to the end: `(steps + 1, batch, labels + 1)`."""
        beta = self.blank.new_full((len(self.blank) + 1, *self.blank.shape[1:]), MINUS_INFINITY)
        beta[self.ends, torch.arange(len(self.ends), device=beta.device), self.labels] = 0
        rows = beta.unbind()
        for step in reversed(range(len(self.blank))):
            ahead = self.blank[step] + rows[step + 1]
            ahead[:, :-1] = torch.logaddexp(ahead[:, :-1], self.label[step, :, :-1] + rows[step + 1][:, 1:])
            torch.logaddexp(rows[step], ahead, out=rows[step])
        return beta

    def at_end(self, alpha: Tensor) -> Tensor:
        """The forward scores of the cells in which the utterances end."""
        return alpha[self.ends, torch.arange(len(self.ends), device=alpha.device), self.labels]


def posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology = "standard") -> Posteriors:
    """The log-probability of each utterance and its posteriors, from scores `(batch, frames, labels + 1)`."""
    steps = _step_scores(blank, label, lengths, topology)
    alpha, beta = steps.forward(), steps.backward()
    total = steps.at_end(alpha)
    # The posteriors of an utterance without a path are zero: plus infinity here gives that, minus infinity gives NaN.
    norm = torch.where(total == MINUS_INFINITY, -total, total)[:, None]
    by_blank = (alpha[:-1] + steps.blank + beta[1:] - norm).exp_()
    by_label = torch.zeros_like(by_blank)
    by_label[..., :-1] = (alpha[:-1, :, :-1] + steps.label[..., :-1] + beta[1:, :, 1:] - norm).exp_()
    frames = blank.shape[1]
    return Posteriors(total, _by_frames(by_blank, frames, topology), _by_frames(by_label, frames, topology))


def best_path(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology = "standard") -> tuple[Tensor, Tensor]:
    """The log-probability of the likeliest path, and the frame in which it emits each label, -1 where there is none."""
    steps = _step_scores(blank, label, lengths, topology)
    best = steps.forward("maximum")
    batch = torch.arange(len(steps.ends), device=best.device)
    token_frames = torch.full((len(batch), blank.shape[2]), -1, device=best.device)
    position = steps.labels.clone()
    for step in reversed(range(len(steps.blank))):
        before = (position - 1).clamp(min=0)
        by_label = best[step, batch, before] + steps.label[step, batch, before]
        by_blank = best[step, batch, position] + steps.blank[step, batch, position]
        # Blank wins a tie, which keeps a path with a score of minus infinity inside the lattice.
        emits = (step < steps.ends) & (position > 0) & (by_label > by_blank)
        frame = step - before if topology == "standard" else torch.full_like(before, step)
        token_frames[batch, before] = torch.where(emits, frame, token_frames[batch, before])
        position = torch.where(emits, before, position)
    return steps.at_end(best), token_frames[:, :-1]


def _step_scores(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> _StepScores:
    frame = torch.arange(blank.shape[1], device=blank.device)[:, None]
    position = torch.arange(blank.shape[2], device=blank.device)
    labels = lengths.labels[:, None, None]
    inside = frame < lengths.frames[:, None, None]
    ends = lengths.frames + lengths.labels if topology == "standard" else lengths.frames
    return _StepScores(
        _by_steps(blank.double().masked_fill(~(inside & (position <= labels)), MINUS_INFINITY), topology),
        _by_steps(label.double().masked_fill(~(inside & (position < labels)), MINUS_INFINITY), topology),
        ends,
        lengths.labels,
    )


def _by_steps(cells: Tensor, topology: Topology) -> Tensor:
    """Rearrange `(batch, frames, positions)` as `(steps, batch, positions)`; minus infinity where there is no cell."""
    if topology == "one-symbol-per-frame":
        return cells.transpose(0, 1).contiguous()
    batch, frames, positions = cells.shape
    # Rows padded to one more than the number of steps, read as rows of that number: each is shifted right by one more.
    rows = functional.pad(cells.transpose(1, 2), (0, positions), value=MINUS_INFINITY).flatten(1)
    steps = frames + positions - 1
    return rows[:, : positions * steps].view(batch, positions, steps).permute(2, 0, 1).contiguous()


def _by_frames(steps: Tensor, frames: int, topology: Topology) -> Tensor:
    """Rearrange `(steps, batch, positions)` as `(batch, frames, positions)`: the inverse of `_by_steps`."""
    if topology == "one-symbol-per-frame":
        return steps.transpose(0, 1)
    count, batch, positions = steps.shape
    rows = functional.pad(steps.permute(1, 2, 0).flatten(1), (0, positions))
    return rows.view(batch, positions, count + 1)[..., :frames].transpose(1, 2)
