"""Small batches for the tests of the losses, and sums over all paths, one path at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from stopwav.losses import oracle_loss
from stopwav.losses.oracle import oracle_logits


def paths(frames: int, labels: int, topology: str = "standard") -> Iterator[list[tuple[int, int, bool]]]:
    """Every path as its arcs: frame, number of labels before it, and whether it emits a label."""
    steps = frames + labels if topology == "standard" else frames
    for label_steps in combinations(range(steps), labels):
        arcs, t, u = [], 0, 0
        for step in range(steps):
            emits = step in label_steps
            arcs.append((t, u, emits))
            u += emits
            t += not emits or topology != "standard"
        # A standard path ends with the blank of the last frame: no label follows it.
        if all(t < frames for t, _, _ in arcs):
            yield arcs


def path_score(arcs: list[tuple[int, int, bool]], blank: Tensor, label: Tensor) -> Tensor:
    """The log-probability of one path of one utterance."""
    return torch.stack([label[t, u] if emits else blank[t, u] for t, u, emits in arcs]).sum()


def brute_force(logits: Tensor, targets: Tensor, frames: int, labels: int, blank: int) -> Tensor:
    """-log of the summed probability of all paths of one utterance, `(T, U + 1, V)`, path by path."""
    scores = logits.double().log_softmax(-1)
    label_scores = torch.stack([scores[:, u, targets[u]] for u in range(labels)], 1) if labels else scores[:, :0, 0]
    return -torch.logsumexp(
        torch.stack([path_score(arcs, scores[..., blank], label_scores) for arcs in paths(frames, labels)]), dim=0
    )


@dataclass(frozen=True)
class Batch:
    """The arguments of a fused loss."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    frames: list[int]
    labels: list[int]
    blank: int

    def to(self, dtype: torch.dtype, device: str = "cpu") -> Batch:
        """The same batch in another type and on another device; its inputs require gradients."""
        inputs = tuple(tensor.detach().to(device, dtype).requires_grad_() for tensor in self.inputs)
        return Batch(inputs, self.targets, self.frames, self.labels, self.blank)


def draw(
    seed: int, lengths: Sequence[tuple[int, int]], symbols: int = 7, width: int = 5, blank: int = 0, scale: float = 1.0
) -> Batch:
    """A batch of random numbers in float64; padding is as random as the rest."""
    random = torch.Generator().manual_seed(seed)
    frames, labels = [list(column) for column in zip(*lengths, strict=True)]
    shapes = ((len(frames), max(frames), width), (len(frames), max(labels) + 1, width), (symbols, width), (symbols,))
    inputs = [scale * torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    # Logits of about one, whatever the width.
    inputs[2] /= width**0.5
    targets = texts(random, len(frames), max(labels), symbols, blank)
    return Batch(tuple(tensor.requires_grad_() for tensor in inputs), targets, frames, labels, blank)


def oracle(
    batch: Batch, weights: Tensor, activation: str = "tanh", fastemit_lambda: float = 0.0
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Losses and gradients of a batch, in float64."""
    logits = oracle_logits(*batch.inputs, activation)
    losses = oracle_loss(logits, batch.targets, batch.frames, batch.labels, batch.blank, fastemit_lambda)
    return losses.detach(), torch.autograd.grad((losses * weights).sum(), batch.inputs)


def relative_error(value: Tensor, truth: Tensor) -> float:
    """The norm of the error of a tensor, relative to that of the truth."""
    difference = (value.detach().cpu().double() - truth.double()).norm()
    return float(difference / truth.double().norm().clamp(min=1e-30))


def texts(random: torch.Generator, count: int, length: int, symbols: int, blank: int) -> Tensor:
    """Random texts without the blank, `(count, length)`."""
    labels = torch.randint(symbols - 1, (count, length), generator=random)
    return labels + (labels >= blank)
