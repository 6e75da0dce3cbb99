"""The layout of the real cells of a batch: all utterances one after the other, and no padding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
import triton
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import cell_kernels as cells
from stopwav.losses.backend import Inputs
from stopwav.losses.lengths import Lengths

# Frames and places of a tile of cells that one program adds up: its partial sums are an eighth of what it reads.
FRAMES, PLACES = 16, 16
# Cells that a program maps: several in each of 128 threads.
BLOCK = 4096


@dataclass(frozen=True)
class Packing:
    """First cell and row length of each utterance, input rows of each cell, and first partial sums of each utterance."""

    starts: Tensor
    widths: Tensor
    encoding_rows: Tensor
    prediction_rows: Tensor
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
            *(self.encoding_parts, self.prediction_parts),
        )


def pack(lengths: Lengths, inputs: Inputs) -> Packing:
    """Return the layout of a batch."""
    batch, frames, _ = inputs.encodings.shape
    positions = inputs.predictions.shape[1]
    starts, widths, encoding_parts, prediction_parts = _offsets(lengths)
    on_host = lengths.on_host
    count = batch * frames * positions if on_host is None else sum(frame * (label + 1) for frame, label in on_host)
    if count >= 2**31:
        raise StopwavError(f"a batch of {count} cells; at most {2**31 - 1} are supported: make the batch smaller")
    rows = torch.empty(2, count, dtype=torch.int32, device=widths.device)
    if on_host is None:
        rows.fill_(-1)
    block = min(BLOCK, triton.next_power_of_2(frames * positions))
    cells.map_cells[(triton.cdiv(frames * positions, block), batch)](
        *(starts, widths, lengths.frames, rows[0], rows[1], frames, positions), BLOCK=block
    )
    return Packing(starts, widths, rows[0], rows[1], encoding_parts, prediction_parts)


def _offsets(lengths: Lengths) -> tuple[Tensor, ...]:
    """First cells, row lengths, and first partial sums of encodings and predictions; the last of each is the total."""
    if lengths.on_host is None:
        widths = lengths.labels + 1
        counts = (
            lengths.frames * widths,
            lengths.frames * ((widths + PLACES - 1) // PLACES),
            (lengths.frames + FRAMES - 1) // FRAMES * widths,
        )
        starts, *parts = (functional.pad(count.cumsum(0), (1, 0)) for count in counts)
        return starts, widths, *parts
    # One copy to the device in place of a dozen launches.
    pairs = [(frames, labels + 1) for frames, labels in lengths.on_host]
    table = [
        list(accumulate((frames * width for frames, width in pairs), initial=0)),
        [*(width for _, width in pairs), 0],
        list(accumulate((frames * -(-width // PLACES) for frames, width in pairs), initial=0)),
        list(accumulate((-(-frames // FRAMES) * width for frames, width in pairs), initial=0)),
    ]
    starts, widths, *parts = torch.tensor(table).to(lengths.frames.device, non_blocking=True)
    return starts, widths[:-1], *parts


def most_parts(lengths: Lengths, step: int, positions: int) -> tuple[int, int]:
    """Return the most partial sums of encodings and of predictions that a chunk of `step` cells has.

    Where only the device knows the lengths, each cell may be a frame or a position of its own; what stands at both ends
    of a chunk is counted whole.
    """
    if lengths.on_host is None:
        return step + 2 * positions, step + 2 * positions
    encoding_parts, prediction_parts = [0], [0]
    first = 0
    for frames, labels in lengths.on_host:
        width = labels + 1
        for chunk in range(first // step, (first + frames * width - 1) // step + 1):
            if chunk == len(encoding_parts):
                encoding_parts.append(0)
                prediction_parts.append(0)
            low = max(0, chunk * step - first) // width
            high = min(frames, -(-((chunk + 1) * step - first) // width))
            encoding_parts[chunk] += (high - low) * -(-width // PLACES)
            prediction_parts[chunk] += (-(-high // FRAMES) - low // FRAMES) * width
        first += frames * width
    return max(encoding_parts), max(prediction_parts)
