"""Sums over all paths of a transducer's lattice, in plain PyTorch on any device, a whole batch and diagonal at a time.

A path is a walk of steps, each of which takes a blank or a label. Standard paths stay in their frame when they take a
label, so cells that are equally many steps from the start lie on an anti-diagonal; paths of one symbol a frame take
every step into the next frame, so they lie in a frame. Laid out by steps, both are the same recursion:

    alpha[s + 1, u] = log(exp(alpha[s, u] + blank[s, u]) + exp(alpha[s, u - 1] + label[s, u - 1]))

All of it is in float64: scores of an utterance add up to thousands, of which float32 keeps three decimals.
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
    """The log-probability of each utterance, and how probably its path takes each cell's blank and each cell's label.

    `total` is `(batch,)`; `blank` and `label` are `(batch, frames, labels + 1)`, zero outside of an utterance.
    """

    total: Tensor
    blank: Tensor
    label: Tensor

    def rounded(self, dtype: torch.dtype) -> Posteriors:
        """The same in another type, with zeros for what its rounding hides.

        Posteriors of a frame add up to one at least, so what is below the square of the rounding does not show in a
        gradient. Such numbers reach down to those that a CPU multiplies a hundred times slower, and most cells of a
        large lattice have nothing else.
        """
        hidden = torch.finfo(dtype).eps ** 2
        blank, label = (one.to(dtype).masked_fill_(one <= hidden, 0) for one in (self.blank, self.label))
        return Posteriors(self.total.to(dtype), blank, label)


@dataclass(frozen=True)
class _Steps:
    """Scores by steps, `(steps, batch, labels + 1)`, minus infinity where no path goes, and where each path ends."""

    blank: Tensor
    label: Tensor
    ends: Tensor
    labels: Tensor

    def forward(self, combine: str = "logaddexp") -> Tensor:
        """What paths from the start gather until each cell: `(steps + 1, batch, labels + 1)`."""
        join = getattr(torch, combine)
        alpha = self.blank.new_full((len(self.blank) + 1, *self.blank.shape[1:]), MINUS_INFINITY)
        alpha[0, :, 0] = 0
        rows = alpha.unbind()
        for row, following, blank, label in zip(rows, rows[1:], self.blank, self.label, strict=False):
            torch.add(row, blank, out=following)
            following[:, 1:] = join(following[:, 1:], row[:, :-1] + label[:, :-1])
        return alpha

    def backward(self) -> Tensor:
        """What paths gather from each cell to the end: `(steps + 1, batch, labels + 1)`."""
        beta = self.blank.new_full((len(self.blank) + 1, *self.blank.shape[1:]), MINUS_INFINITY)
        beta[self.ends, torch.arange(len(self.ends), device=beta.device), self.labels] = 0
        rows = beta.unbind()
        for step in reversed(range(len(self.blank))):
            ahead = self.blank[step] + rows[step + 1]
            ahead[:, :-1] = torch.logaddexp(ahead[:, :-1], self.label[step, :, :-1] + rows[step + 1][:, 1:])
            torch.logaddexp(rows[step], ahead, out=rows[step])
        return beta

    def at_end(self, alpha: Tensor) -> Tensor:
        """What paths have gathered where each utterance ends."""
        return alpha[self.ends, torch.arange(len(self.ends), device=alpha.device), self.labels]


def total_score(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology = "standard") -> Tensor:
    """The log-probability of each utterance from its scores, `(batch, frames, labels + 1)` each."""
    steps = _steps(blank, label, lengths, topology)
    return steps.at_end(steps.forward())


def posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology = "standard") -> Posteriors:
    """The log-probability of each utterance and the posteriors of its arcs."""
    steps = _steps(blank, label, lengths, topology)
    alpha, beta = steps.forward(), steps.backward()
    total = steps.at_end(alpha)
    # An utterance without any path has no posteriors: what is less than everything gives zeros here, and not NaN.
    above = torch.where(total == MINUS_INFINITY, -total, total)[:, None]
    through_blank = (alpha[:-1] + steps.blank + beta[1:] - above).exp_()
    through_label = torch.zeros_like(through_blank)
    through_label[..., :-1] = (alpha[:-1, :, :-1] + steps.label[..., :-1] + beta[1:, :, 1:] - above).exp_()
    frames = blank.shape[1]
    return Posteriors(total, _by_frames(through_blank, frames, topology), _by_frames(through_label, frames, topology))


def best_path(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology = "standard") -> tuple[Tensor, Tensor]:
    """The log-probability of the likeliest path, and the frame in which it takes each label, -1 where there is none."""
    steps = _steps(blank, label, lengths, topology)
    best = steps.forward("maximum")
    batch = torch.arange(len(steps.ends), device=best.device)
    token_frames = torch.full((len(batch), blank.shape[2]), -1, device=best.device)
    place = steps.labels.clone()
    for step in reversed(range(len(steps.blank))):
        before = (place - 1).clamp(min=0)
        by_label = best[step, batch, before] + steps.label[step, batch, before]
        by_blank = best[step, batch, place] + steps.blank[step, batch, place]
        # Blank wins a tie, which keeps a path whose score is minus infinity from running off the lattice.
        emits = (step < steps.ends) & (place > 0) & (by_label > by_blank)
        frame = step - before if topology == "standard" else torch.full_like(before, step)
        token_frames[batch, before] = torch.where(emits, frame, token_frames[batch, before])
        place = torch.where(emits, before, place)
    return steps.at_end(best), token_frames[:, :-1]


def _steps(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> _Steps:
    frame = torch.arange(blank.shape[1], device=blank.device)[:, None]
    place = torch.arange(blank.shape[2], device=blank.device)
    labels = lengths.labels[:, None, None]
    inside = frame < lengths.frames[:, None, None]
    ends = lengths.frames + lengths.labels if topology == "standard" else lengths.frames
    return _Steps(
        _by_steps(blank.double().masked_fill(~(inside & (place <= labels)), MINUS_INFINITY), topology),
        _by_steps(label.double().masked_fill(~(inside & (place < labels)), MINUS_INFINITY), topology),
        ends,
        lengths.labels,
    )


def _by_steps(cells: Tensor, topology: Topology) -> Tensor:
    """`(batch, frames, places)` as `(steps, batch, places)`, minus infinity where a step has no cell."""
    if topology == "one-symbol-per-frame":
        return cells.transpose(0, 1).contiguous()
    batch, frames, places = cells.shape
    # Rows that are one longer than the steps: read with one less, each begins one place further to the right.
    rows = functional.pad(cells.transpose(1, 2), (0, places), value=MINUS_INFINITY).flatten(1)
    steps = frames + places - 1
    return rows[:, : places * steps].view(batch, places, steps).permute(2, 0, 1).contiguous()


def _by_frames(steps: Tensor, frames: int, topology: Topology) -> Tensor:
    """`(steps, batch, places)` as `(batch, frames, places)`: the inverse of `_by_steps`."""
    if topology == "one-symbol-per-frame":
        return steps.transpose(0, 1)
    count, batch, places = steps.shape
    rows = functional.pad(steps.permute(1, 2, 0).flatten(1), (0, places))
    return rows.view(batch, places, count + 1)[..., :frames].transpose(1, 2)
