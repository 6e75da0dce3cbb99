"""Triton kernels over packed cells: which rows a cell is the sum of, and its activations.

Packed means that the real cells of all utterances are contiguous: utterance by utterance, frame by frame, position by
position. `encoding_rows[c]` and `prediction_rows[c]` are the rows of the padded inputs that cell c is the sum of; both
are -1 after the last real cell. A chunk is the `size` cells from `first` on; `starts[n]` is the first cell of utterance
n, and `starts[batch]` the number of real cells.

No kernel adds atomically: the shapes alone decide the order of each sum, so results repeat bit by bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Numbers that change from batch to batch: specialising on multiples of 16 would cost more compilations than it gains.
VARYING = ("first", "size", "BATCH", "T", "POSITIONS")


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    """The activation; NaN stays NaN."""
    y = x
    if ACTIVATION == "tanh":
        # One division and one exponential; an infinite exponential gives 1.
        y = 1 - 2 / (1 + tl.exp(2 * x))
    elif ACTIVATION == "relu":
        y = tl.where(x < 0, 0.0, x)
    return y


@triton.jit
def slope(x, ACTIVATION: tl.constexpr):
    """The derivative of the activation, tanh or relu."""
    y = _activated(x, ACTIVATION)
    return 1 - y * y if ACTIVATION == "tanh" else tl.where(x > 0, 1.0, 0.0)


@triton.jit(do_not_specialize=VARYING)
def map_cells(starts, widths, frames, encoding_rows, prediction_rows, T, POSITIONS, BLOCK: tl.constexpr):
    """Write the two input rows of each cell; one program per block of an utterance's cells."""
    n = tl.program_id(1)
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = tl.load(widths + n)
    start = tl.load(starts + n)
    inside = cell < tl.load(frames + n) * width
    frame = cell // width
    tl.store(encoding_rows + start + cell, (n * T + frame).to(tl.int32), mask=inside)
    tl.store(prediction_rows + start + cell, (n * POSITIONS + cell - frame * width).to(tl.int32), mask=inside)


@triton.jit(do_not_specialize=VARYING)
def pack_hidden(
    hidden,
    encodings,
    predictions,
    encoding_rows,
    prediction_rows,
    first,
    size,
    D: tl.constexpr,
    DP: tl.constexpr,
    ACTIVATION: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write the activations of a chunk, `(size, DP)`, zero in padding columns and after the last real cell."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    encoding = tl.load(encoding_rows + first + row, mask=row < size, other=-1).to(tl.int64)
    prediction = tl.load(prediction_rows + first + row, mask=row < size, other=-1).to(tl.int64)
    real = (encoding >= 0)[:, None] & (column < D)[None, :]
    x = tl.load(encodings + encoding[:, None] * D + column[None, :], mask=real, other=0).to(SUM_DTYPE)
    x += tl.load(predictions + prediction[:, None] * D + column[None, :], mask=real, other=0).to(SUM_DTYPE)
    y = _activated(x, ACTIVATION)
    at = row.to(tl.int64)[:, None] * DP + column[None, :]
    tl.store(hidden + at, y.to(hidden.dtype.element_ty), mask=(row < size)[:, None] & (column < DP)[None, :])
