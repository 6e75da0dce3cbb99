"""Batches of LibriSpeech's shapes for benchmarks of losses: frames after subsampling by 4, and word pieces of 500."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

WIDTH = 512
# Quantiles 0, 0.05, 0.5, 0.95 and 1 of train-clean-100 with speed perturbation, 85,617 utterances.
LEVELS = (0.0, 0.05, 0.5, 0.95, 1.0)
FRAMES = (31, 105, 343, 432, 680)
TOKENS = (2, 22, 71, 98, 151)
# Of the normal scores behind both, so that frames and tokens correlate by 0.82 as they do there.
CORRELATION = 0.85
UTTERANCES = 85_617


@dataclass(frozen=True)
class Batch:
    """What a fused loss is given; lengths and targets lie on the host."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    frames: Tensor
    labels: Tensor

    @property
    def cells(self) -> int:
        """Real cells."""
        return int((self.frames * (self.labels + 1)).sum())

    @property
    def padded_cells(self) -> int:
        """Cells with the padding."""
        return len(self.frames) * int(self.frames.max()) * (int(self.labels.max()) + 1)


def shapes(seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Frames and tokens of every utterance, and where they come from: the table of stopwav where it has one."""
    try:
        module: Any = importlib.import_module("stopwav.speech.shapes")
        found = module.load_shapes("librispeech", seed=seed)
        return found.frames, found.tokens, "LibriSpeech's joint table"
    except ImportError:
        random = np.random.default_rng(seed)
        first, other = random.standard_normal((2, UTTERANCES))
        second = CORRELATION * first + np.sqrt(1 - CORRELATION**2) * other
        ranks = [one.argsort().argsort() / (UTTERANCES - 1) for one in (first, second)]
        frames, tokens = (np.interp(rank, LEVELS, of) for rank, of in zip(ranks, (FRAMES, TOKENS), strict=True))
        return frames.round().astype(int), tokens.round().astype(int), "quantiles of LibriSpeech"


def random_pairs(seed: int, size: int) -> list[tuple[int, int]]:
    """Frames and tokens of a batch of utterances as they come."""
    frames, tokens, _ = shapes(seed)
    chosen = np.random.default_rng(seed).choice(len(frames), size, replace=False)
    return [(int(frames[one]), int(tokens[one])) for one in chosen]


def sorted_pairs(seed: int, place: float, most_frames: int = 10_000) -> list[tuple[int, int]]:
    """Frames and tokens of utterances that are neighbours by length, from some place on, as many as fit."""
    frames, tokens, _ = shapes(seed)
    order = np.lexsort((tokens, frames))[int(place * len(frames)) :]
    count = max(1, int((frames[order].cumsum() <= most_frames).sum()))
    return [(int(frames[one]), int(tokens[one])) for one in order[:count]]


def make(pairs: list[tuple[int, int]], symbols: int, device: str, seed: int = 0, width: int = WIDTH) -> Batch:
    """Random inputs of some shapes in float32."""
    random = torch.Generator().manual_seed(seed)
    frames, labels = (torch.tensor(one) for one in zip(*pairs, strict=True))
    of = (
        (len(pairs), int(frames.max()), width),
        (len(pairs), int(labels.max()) + 1, width),
        (symbols, width),
        (symbols,),
    )
    scales = (1.0, 1.0, width**-0.5, 0.1)
    inputs = [scale * torch.randn(shape, generator=random) for scale, shape in zip(scales, of, strict=True)]
    targets = torch.randint(1, symbols, (len(pairs), int(labels.max())), generator=random)
    return Batch(tuple(one.to(device).requires_grad_() for one in inputs), targets, frames, labels)
