"""Forced alignment to the output of a CTC model: the most probable path that spells a known sequence of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError

# Frames times states of a lattice, one byte each for the way back: 15 min of speech at 50 frames a second.
MOST_CELLS = 1_000_000_000


def forced_path(log_probs: NDArray[np.float32], labels: Sequence[int], blank: int) -> NDArray[np.int64] | None:
    """Return for each frame the position of its label in `labels`, or -1 for a blank; None where no path spells them.

    The path is exact: no other that spells the labels has a larger sum of the frames' `log_probs`. Of equally probable
    ones it is the one that moves on as late as it can, seen from the end.
    """
    frames, count = len(log_probs), len(labels)
    states = 2 * count + 1  # a blank before each label and after the last
    if frames * states > MOST_CELLS:
        raise StopwavError(
            f"{frames} frames and {count} labels are too many to be aligned at once; cut the recording into segments, "
            "or give the word times in a CTM file (--words)"
        )
    symbols = np.full(states, blank, dtype=np.int64)
    symbols[1::2] = labels
    # A label may follow another one without a blank, but not itself.
    may_skip = np.zeros(states, dtype=bool)
    may_skip[3::2] = symbols[3::2] != symbols[1:-2:2]
    score = np.full(states, -np.inf)
    score[:2] = log_probs[0, symbols[:2]] if frames else -np.inf
    steps = np.zeros((frames, states), dtype=np.uint8)
    for frame in range(1, frames):
        one, two = _shifted(score, 1), np.where(may_skip, _shifted(score, 2), -np.inf)
        best = np.maximum(np.maximum(score, one), two)
        steps[frame] = np.where(best == score, 0, np.where(best == one, 1, 2))
        score = best + log_probs[frame, symbols]
    last = states - 1 if count == 0 or score[-1] >= score[-2] else states - 2
    return _path_back(steps, last) if frames and np.isfinite(score[last]) else None


def spans(path: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """Return for each label its first frame and the one after its last."""
    first = np.searchsorted(_labels_only(path), np.arange(count), side="left")
    after = np.searchsorted(_labels_only(path), np.arange(count), side="right")
    frames = np.flatnonzero(path >= 0)
    return [(int(frames[begin]), int(frames[end - 1]) + 1) for begin, end in zip(first, after, strict=True)]


def _labels_only(path: NDArray[np.int64]) -> NDArray[np.int64]:
    return path[path >= 0]


def _shifted(score: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    moved = np.full_like(score, -np.inf)
    moved[by:] = score[:-by] if by < len(score) else ()
    return moved


def _path_back(steps: NDArray[np.uint8], state: int) -> NDArray[np.int64]:
    path = np.empty(len(steps), dtype=np.int64)
    for frame in range(len(steps) - 1, -1, -1):
        path[frame] = state // 2 if state % 2 else -1
        state -= int(steps[frame, state])
    return path
