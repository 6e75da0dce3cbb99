"""Batches of shapes, of a fixed size or up to a number of frames, and their padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stopwav.errors import StopwavError
from stopwav.speech.shapes import Counts, Shapes

# The orders in which batches are cut from a corpus. Sorted by length, an utterance keeps its pair of T and U, shortest
# or longest first; the last one sorts each column on its own, longest first, as the published sorted table does.
SHUFFLED = "shuffled"
FILE = "file"
SORTED = "sorted"
LONGEST_FIRST = "longest-first"
COLUMNS = "columns-independently"
BY_LENGTH = (SORTED, LONGEST_FIRST, COLUMNS)
ORDERS = (SHUFFLED, FILE, *BY_LENGTH)


@dataclass(frozen=True)
class Batch:
    """The frames and tokens of each utterance of a batch."""

    frames: tuple[int, ...]
    tokens: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def cells(self) -> int:
        """Lattice cells that belong to an utterance: the sum of T · (U + 1)."""
        return sum(t * (u + 1) for t, u in zip(self.frames, self.tokens, strict=True))

    @property
    def padded_cells(self) -> int:
        """Lattice cells of the batch when every utterance is padded to the longest."""
        return len(self) * max(self.frames) * (max(self.tokens) + 1)


def make_batches(
    shapes: Shapes,
    *,
    batch_size: int = 30,
    max_frames: int | None = None,
    order: str = SHUFFLED,
    buckets: int | None = None,
    seed: int = 0,
) -> list[Batch]:
    """Return every batch of the corpus: of `batch_size` utterances, or of up to `max_frames` counted before padding.

    `order` is one of `ORDERS`; `seed` draws the shuffled one. With `buckets`, a batch has only utterances of one length
    range, in that order; the ranges have equally many utterances.
    """
    if order not in ORDERS:
        raise StopwavError(f"--order {order!r}: give one of {', '.join(ORDERS)}")
    if order in BY_LENGTH and buckets:
        raise StopwavError(
            f"--order {order} and --buckets exclude each other: sorting is bucketing with one bucket per batch; "
            "give one of them"
        )
    frames, tokens = _ordered(shapes, order, seed)
    groups = [np.arange(len(frames))] if not buckets else _buckets(frames, buckets)
    batches = []
    for group in groups:
        group_frames, group_tokens = frames[group], tokens[group]
        for part in _parts(group_frames, batch_size, max_frames):
            batches.append(Batch(tuple(group_frames[part].tolist()), tuple(group_tokens[part].tolist())))
    if not batches:
        within = f" in {buckets} buckets" if buckets else ""
        raise StopwavError(
            f"utterances: {len(shapes)}{within}, too few for a batch of {batch_size}; use a smaller batch"
        )
    return batches


def spread(batches: Sequence[Batch], count: int) -> list[Batch]:
    """Return `count` of the batches, spread evenly: the first ones of a sorted corpus would not represent it."""
    if count >= len(batches):
        return list(batches)
    places = [int((index + 0.5) * len(batches) / count) for index in range(count)]
    return [batches[place] for place in places]


def padding_efficiency(batches: Sequence[Batch]) -> float:
    """Return the real cells over the padded cells, of all batches together."""
    return sum(batch.cells for batch in batches) / sum(batch.padded_cells for batch in batches)


def covered_range(batches: Sequence[Batch], shapes: Shapes) -> tuple[float, float]:
    """Return the shares of the corpus that are shorter than the batches' shortest and not longer than their longest."""
    frames = [t for batch in batches for t in batch.frames]
    ordered = np.sort(shapes.frames)
    low = np.searchsorted(ordered, min(frames), side="left")
    high = np.searchsorted(ordered, max(frames), side="right")
    return float(low / len(ordered)), float(high / len(ordered))


def invented_pairs(batches: Sequence[Batch], shapes: Shapes) -> float:
    """Return the share of the batches' pairs of T and U that no utterance of the corpus has; each counts once."""
    real = Counter(zip(shapes.frames.tolist(), shapes.tokens.tolist(), strict=True))
    made = Counter(pair for batch in batches for pair in zip(batch.frames, batch.tokens, strict=True))
    return 1 - (real & made).total() / made.total()


def _ordered(shapes: Shapes, order: str, seed: int) -> tuple[Counts, Counts]:
    """Return the frames and tokens of the corpus in one of the orders."""
    frames, tokens = shapes.frames, shapes.tokens
    if order == COLUMNS:
        return np.sort(frames)[::-1], np.sort(tokens)[::-1]
    if order == FILE:
        return frames, tokens
    if order == SHUFFLED:
        places = np.random.default_rng(seed).permutation(len(shapes))
    else:
        places = np.lexsort((tokens, frames))[:: -1 if order == LONGEST_FIRST else 1]
    return frames[places], tokens[places]


def _buckets(frames: Counts, count: int) -> list[Counts]:
    """Return the utterances of each length range, those of equal length in their given order."""
    parts = np.array_split(np.argsort(frames, kind="stable"), count)
    # Inside a bucket the order is random again.
    return [np.sort(part) for part in parts if len(part)]


def _parts(frames: Counts, batch_size: int, max_frames: int | None) -> list[slice]:
    """Return where each batch begins and ends; a remainder that does not fill a batch of a fixed size is left out."""
    if max_frames is None:
        return [slice(start, start + batch_size) for start in range(0, len(frames) - batch_size + 1, batch_size)]
    parts, start, total = [], 0, 0
    for index, count in enumerate(frames.tolist()):
        if total + count > max_frames and index > start:
            parts.append(slice(start, index))
            start, total = index, 0
        total += count
    return [*parts, slice(start, len(frames))]
