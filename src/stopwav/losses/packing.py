"""The layout of the real cells of a batch: all utterances one after the other, and no padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import cell_kernels as cells
from stopwav.losses.backend import Inputs
from stopwav.losses.kernel_launch import Launcher, blocks_of, next_power_of_2
from stopwav.losses.lengths import Lengths, on_device

# Frames and places of a tile of cells that one program adds up: its partial sums are an eighth of what it reads.
FRAMES, PLACES = 16, 8
# Cells that a program maps: several in each of 128 threads.
BLOCK = 4096


@dataclass(frozen=True)
class Packing:
    """First cell and row length of each utterance, input rows of each cell, first tile and sums of each utterance."""

    starts: Tensor
    widths: Tensor
    encoding_rows: Tensor
    prediction_rows: Tensor
    tiles: Tensor
    encoding_parts: Tensor
    prediction_parts: Tensor

    @property
    def cells(self) -> int:
        """The number of real cells, or its upper bound if only the device knows the lengths."""
        return len(self.encoding_rows)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order of the fields."""
        return (
            *(self.starts, self.widths, self.encoding_rows, self.prediction_rows),
            *(self.tiles, self.encoding_parts, self.prediction_parts),
        )


def pack(lengths: Lengths, inputs: Inputs) -> Packing:
    """Return the layout of a batch."""
    batch, frames, _ = inputs.encodings.shape
    positions = inputs.predictions.shape[1]
    starts, widths, *parts = _offsets(lengths)
    on_host = lengths.on_host
    count = batch * frames * positions if on_host is None else sum(frame * (label + 1) for frame, label in on_host)
    if count >= 2**31:
        raise StopwavError(f"a batch of {count} cells; at most {2**31 - 1} are supported: make the batch smaller")
    rows = [torch.empty(count, dtype=torch.int32, device=widths.device) for _ in range(2)]
    if on_host is None:
        for row in rows:
            row.fill_(-1)
    block = min(BLOCK, next_power_of_2(frames * positions))
    Launcher(cells.map_cells, {"BLOCK": block})(
        (blocks_of(frames * positions, block), batch),
        *(starts, widths, lengths.frames, *rows, frames, positions),
    )
    return Packing(starts, widths, *rows, *parts)


def _offsets(lengths: Lengths) -> tuple[Tensor, ...]:
    """First cells, row lengths, first tiles, and first partial sums of encodings and of predictions.

    The last of each is the total, but for the row lengths.
    """
    if lengths.on_host is None:
        widths = lengths.labels + 1
        counts = _counts(lengths.frames, widths)
        starts, *parts = (functional.pad(count.cumsum(0), (1, 0)) for count in counts)
        return starts, widths, *parts
    # One copy to the device in place of a dozen launches.
    frames, labels = np.array(lengths.on_host, dtype=np.int64).reshape(-1, 2).T
    rows = np.zeros((5, len(frames) + 1), np.int64)
    for row, counts in zip(rows, _counts(frames, labels + 1), strict=False):
        np.cumsum(counts, out=row[1:])
    rows[4, :-1] = labels + 1
    starts, *parts, widths = on_device(rows, lengths.frames.device)
    return starts, widths[:-1], *parts


def _counts(frames: Any, widths: Any) -> tuple[Any, ...]:
    """The cells of each utterance, its tiles, and its partial sums of encodings and of predictions."""
    groups, places = (frames + FRAMES - 1) // FRAMES, (widths + PLACES - 1) // PLACES
    return frames * widths, groups * places, frames * places, groups * widths


def most_parts(lengths: Lengths, step: int, positions: int) -> tuple[int, int, int]:
    """Return the most tiles of a chunk of `step` cells, and the most partial sums of encodings and of predictions.

    Where only the device knows the lengths, each cell may be a frame or a position of its own; what stands at both ends
    of a chunk is counted whole.
    """
    if lengths.on_host is None:
        bound = step + 2 * positions
        return bound, bound, bound
    most = (0, 0, 0)
    first = tiles = encodings = predictions = 0
    for frames, labels in lengths.on_host:
        width = labels + 1
        places, end = -(-width // PLACES), first + frames * width
        for start in range(first // step * step, end, step):
            if start >= first:
                tiles = encodings = predictions = 0
            low, high = max(0, start - first) // width, min(frames, -(-(start + step - first) // width))
            groups = -(-high // FRAMES) - low // FRAMES
            tiles += groups * places
            encodings += (high - low) * places
            predictions += groups * width
            most = max(most[0], tiles), max(most[1], encodings), max(most[2], predictions)
        first = end
    return most
