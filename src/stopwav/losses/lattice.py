"""The transducer loss on scores of blanks and labels, for joiners of any kind, and the alignments it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses.lengths import Lengths, Reduction, checked_lengths, reduced
from stopwav.losses.recursion import TOPOLOGIES, Posteriors, Topology, best_path, posteriors


@dataclass(frozen=True)
class Alignment:
    """The alignment of a batch's labels to its frames.

    `scores` are the log-probabilities of the utterances, over all paths, and `best_scores` those of their likeliest
    paths, `(N,)`. `token_frames` is the frame in which the likeliest path emits each label, and `expected_frames` the
    mean of that frame over all paths, `(N, U)`; -1 where an utterance has no such label or no path. `blank_posteriors`
    and `label_posteriors` are the probabilities that a path takes each arc, `(N, T, U + 1)` and `(N, T, U)`.
    """

    scores: Tensor
    best_scores: Tensor
    token_frames: Tensor
    expected_frames: Tensor
    blank_posteriors: Tensor
    label_posteriors: Tensor

    def token_times_s(self, frame_s: float) -> list[list[float]]:
        """When the likeliest path emits each label, in seconds from the start; `frame_s` is the duration of a frame."""
        return [[frame * frame_s for frame in row if frame >= 0] for row in self.token_frames.tolist()]


def transducer_lattice_loss(
    blank_scores: Tensor,
    label_scores: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    topology: Topology = "standard",
    reduction: Reduction = "mean",
    fastemit_lambda: float = 0.0,
) -> Tensor:
    """-log p of every utterance, or their sum or mean, from the log-probabilities of its arcs.

    `blank_scores` is `(N, T, U + 1)`: of a blank in each frame after each number of labels. `label_scores` is
    `(N, T, U)`: of the next label there. `topology` is `standard`, where a label stays in its frame, or
    `one-symbol-per-frame`, where it moves to the next; an utterance with more labels than frames then has no path, an
    infinite loss and a gradient of zero. `fastemit_lambda` changes the gradient and not the value.
    """
    lengths, label = _checked(blank_scores, label_scores, frame_lengths, target_lengths, topology)
    losses = _LatticeLoss.apply(blank_scores, label, lengths, topology, fastemit_lambda)  # type: ignore[no-untyped-call]
    return reduced(losses, reduction)


@torch.no_grad()
def align(
    blank_scores: Tensor,
    label_scores: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    topology: Topology = "standard",
) -> Alignment:
    """Align every utterance; the arguments are those of `transducer_lattice_loss`."""
    lengths, label = _checked(blank_scores, label_scores, frame_lengths, target_lengths, topology)
    arcs = _posteriors(blank_scores, label, lengths, topology)
    best_scores, token_frames = best_path(blank_scores, label, lengths, topology)
    label_posteriors = arcs.label[..., :-1]
    frame = torch.arange(blank_scores.shape[1], device=label.device, dtype=label_posteriors.dtype)
    expected = (label_posteriors * frame[:, None]).sum(dim=1)
    position = torch.arange(label_posteriors.shape[2], device=label.device)
    missing = (position >= lengths.labels[:, None]) | torch.isinf(arcs.total)[:, None]
    return Alignment(
        arcs.total,
        best_scores,
        token_frames.masked_fill(missing, -1),
        expected.masked_fill(missing, -1),
        arcs.blank,
        label_posteriors,
    )


class _LatticeLoss(torch.autograd.Function):
    """Loss and its analytic gradient: minus the posteriors."""

    @staticmethod
    def forward(
        ctx: Any, blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology, fastemit_lambda: float
    ) -> Tensor:
        sum_dtype = torch.promote_types(blank.dtype, torch.float32)
        arcs = _posteriors(blank, label, lengths, topology).rounded(sum_dtype)
        ctx.save_for_backward(arcs.blank, arcs.label)
        ctx.fastemit_lambda, ctx.dtypes = fastemit_lambda, (blank.dtype, label.dtype)
        return -arcs.total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        blank_posteriors, label_posteriors = ctx.saved_tensors
        weight = -grad_losses[:, None, None]
        to_blank = weight * blank_posteriors
        to_label = weight * (1 + ctx.fastemit_lambda) * label_posteriors
        return to_blank.to(ctx.dtypes[0]), to_label.to(ctx.dtypes[1]), None, None, None


def _checked(
    blank: Tensor,
    label: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    topology: Topology,
) -> tuple[Lengths, Tensor]:
    """The lengths, and the label scores padded by one position, from which no label follows."""
    if topology not in TOPOLOGIES:
        raise StopwavError(f"topology {topology!r}; give one of {', '.join(TOPOLOGIES)}")
    if blank.dim() != 3 or label.shape != (*blank.shape[:2], blank.shape[2] - 1):
        shapes = f"{tuple(blank.shape)} and {tuple(label.shape)}"
        raise StopwavError(f"blank and label scores of shapes {shapes}; give (N, T, U + 1) and (N, T, U)")
    batch, frames, positions = blank.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, positions - 1, blank.device)
    return lengths, functional.pad(label, (0, 1))


def _posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> Posteriors:
    """The posteriors; by Triton kernels on a GPU, where PyTorch would spend its time launching hundreds of steps."""
    if blank.is_cuda:
        try:
            from stopwav.losses.lattice_kernels import lattice_posteriors
        except ImportError:
            return posteriors(blank, label, lengths, topology)
        with torch.cuda.device_of(blank):
            return lattice_posteriors(blank, label, lengths, topology)
    return posteriors(blank, label, lengths, topology)
