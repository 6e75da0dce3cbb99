"""Triton kernels over packed cells: the parts of the fused loss around its matrix products.

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
def _slope(x, ACTIVATION: tl.constexpr):
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


@triton.jit(do_not_specialize=VARYING)
def score_cells(
    logits,
    bias,
    targets,
    widths,
    encoding_rows,
    prediction_rows,
    peaks,
    spreads,
    blank_scores,
    label_scores,
    first,
    size,
    T,
    POSITIONS,
    V: tl.constexpr,
    VP: tl.constexpr,
    BLANK: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write each cell's largest logit (peak), log-sum-exp minus that (spread), and the scores of blank and label.

    Peak and spread are separate: with logits of tens of thousands their sum would lose the decimals of the spread.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cell = first + row
    encoding = tl.load(encoding_rows + cell, mask=row < size, other=-1)
    real = encoding >= 0
    base = logits + row.to(tl.int64) * VP
    peak = tl.full([ROWS], float("-inf"), SUM_DTYPE)
    total = tl.zeros([ROWS], SUM_DTYPE)
    for v in range(0, V, COLUMNS):
        column = v + tl.arange(0, COLUMNS)
        # Padding columns are loaded too, so that loads stay 16 bytes wide, and count as minus infinity.
        inside = real[:, None] & (column < VP)[None, :]
        x = tl.load(base[:, None] + column[None, :], mask=inside, other=0).to(SUM_DTYPE)
        x += tl.load(bias + column, mask=column < V, other=0).to(SUM_DTYPE)[None, :]
        x = tl.where((column < V)[None, :], x, float("-inf"))
        higher = tl.maximum(peak, tl.max(x, axis=1))
        # If everything is minus infinity so far, there is nothing to scale.
        level = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - level) + tl.sum(tl.exp(x - level[:, None]), axis=1)
        peak = higher
    spread = tl.log(total)
    n = encoding // T
    position = tl.load(prediction_rows + cell, mask=real, other=0) - n * POSITIONS
    labelled = real & (position < tl.load(widths + n, mask=real, other=1) - 1)
    target = tl.load(targets + n * (POSITIONS - 1) + position, mask=labelled, other=0)
    blank = tl.load(base + BLANK, mask=real, other=0).to(SUM_DTYPE) + tl.load(bias + BLANK).to(SUM_DTYPE)
    label = tl.load(base + target, mask=labelled, other=float("-inf")).to(SUM_DTYPE)
    label += tl.load(bias + target).to(SUM_DTYPE)
    tl.store(peaks + cell, peak, mask=real)
    tl.store(spreads + cell, spread, mask=real)
    tl.store(blank_scores + cell, blank - peak - spread, mask=real)
    tl.store(label_scores + cell, label - peak - spread, mask=real)


@triton.jit(do_not_specialize=VARYING)
def logit_gradient(
    logits,
    bias,
    targets,
    widths,
    encoding_rows,
    prediction_rows,
    peaks,
    spreads,
    to_blank,
    to_label,
    bias_parts,
    first,
    size,
    T,
    POSITIONS,
    V: tl.constexpr,
    VP: tl.constexpr,
    BLANK: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Overwrite a chunk's logits with their gradient, and add its columns to the program's own sums for the bias.

    A program has every `num_programs`-th block of rows, and one block of columns.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    offset = tl.load(bias + column, mask=column < V, other=0).to(SUM_DTYPE)
    # Summed over rows only at the end, since that makes threads wait for each other.
    sums = tl.zeros([ROWS, COLUMNS], SUM_DTYPE)
    for block in range(tl.program_id(0) * ROWS, size, tl.num_programs(0) * ROWS):
        row = block + tl.arange(0, ROWS)
        cell = first + row
        encoding = tl.load(encoding_rows + cell, mask=row < size, other=-1)
        real = encoding >= 0
        n = encoding // T
        position = tl.load(prediction_rows + cell, mask=real, other=0) - n * POSITIONS
        labelled = real & (position < tl.load(widths + n, mask=real, other=1) - 1)
        target = tl.load(targets + n * (POSITIONS - 1) + position, mask=labelled, other=-1).to(tl.int32)
        blank = tl.load(to_blank + cell, mask=real, other=0)
        label = tl.load(to_label + cell, mask=real, other=0)
        peak = tl.load(peaks + cell, mask=real, other=0)
        spread = tl.load(spreads + cell, mask=real, other=0)
        at = logits + row.to(tl.int64)[:, None] * VP + column[None, :]
        inside = real[:, None] & (column < V)[None, :]
        x = tl.load(at, mask=real[:, None] & (column < VP)[None, :], other=0).to(SUM_DTYPE) + offset[None, :]
        grad = -tl.exp(x - peak[:, None] - spread[:, None]) * (blank + label)[:, None]
        grad += tl.where(column[None, :] == BLANK, blank[:, None], 0.0)
        grad += tl.where(column[None, :] == target[:, None], label[:, None], 0.0)
        # Zeros are written too: the matrix products that follow read every row and column.
        grad = tl.where(inside, grad, 0.0)
        tl.store(at, grad.to(logits.dtype.element_ty), mask=(row < size)[:, None] & (column < VP)[None, :])
        sums += grad
    part = bias_parts + tl.program_id(0) * VP + column
    tl.store(part, tl.load(part, mask=column < VP, other=0) + tl.sum(sums, axis=0), mask=column < VP)


@triton.jit(do_not_specialize=VARYING)
def add_up_rows(
    grads,
    encodings,
    predictions,
    total,
    encoding_rows,
    starts,
    widths,
    frames,
    first,
    size,
    BATCH,
    T,
    POSITIONS,
    D: tl.constexpr,
    DP: tl.constexpr,
    OVER_FRAMES: tl.constexpr,
    ACTIVATION: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add a chunk's gradients, taken back through the activation, to the input rows that its cells came from.

    Rows of the encodings are sums over positions, those of the predictions sums over frames. Each row belongs to one
    program, and chunks run one after the other.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    end = tl.minimum(first + size, tl.load(starts + BATCH)).to(tl.int32)
    rows_per_utterance = POSITIONS if OVER_FRAMES else T
    any_real = first < end
    lowest = tl.load(encoding_rows + first, mask=any_real, other=0) // T * rows_per_utterance
    highest = tl.load(encoding_rows + end - 1, mask=any_real, other=0) // T * rows_per_utterance + rows_per_utterance
    highest = tl.where(any_real, highest, lowest)
    for row in range(lowest + tl.program_id(0), highest, tl.num_programs(0)):
        n = row // rows_per_utterance
        index = row - n * rows_per_utterance
        width = tl.load(widths + n).to(tl.int32)
        start = tl.load(starts + n).to(tl.int32)
        count = tl.load(frames + n).to(tl.int32)
        # The cells of this row are `begin + k * stride`; those of the chunk have k from `low` to below `high`.
        begin = start + index if OVER_FRAMES else start + index * width
        stride = width if OVER_FRAMES else 1
        exists = index < (width if OVER_FRAMES else count)
        low = (tl.maximum(first - begin, 0) + stride - 1) // stride
        high = tl.minimum((tl.maximum(end - begin, 0) + stride - 1) // stride, count if OVER_FRAMES else width)
        high = tl.where(exists, high, low)
        # The row's own part of the activation's input is the same in all of its cells.
        own = tl.full([COLUMNS], row, tl.int64) * D + column
        x = tl.load(
            (predictions if OVER_FRAMES else encodings) + own, mask=column < tl.where(exists, D, 0), other=0
        ).to(SUM_DTYPE)
        sums = tl.zeros([ROWS, COLUMNS], SUM_DTYPE)
        for block in range(low, high, ROWS):
            k = block + tl.arange(0, ROWS)
            inside = (k < high)[:, None] & (column < D)[None, :]
            at = (begin + k * stride - first).to(tl.int64)[:, None] * DP + column[None, :]
            grad = tl.load(grads + at, mask=inside, other=0).to(SUM_DTYPE)
            if ACTIVATION != "none":
                other_row = (n * T + k if OVER_FRAMES else n * POSITIONS + k).to(tl.int64)
                other = (encodings if OVER_FRAMES else predictions) + other_row[:, None] * D + column[None, :]
                y = tl.load(other, mask=inside, other=0).to(SUM_DTYPE)
                grad *= _slope(x[None, :] + y, ACTIVATION)
            sums += grad
        written = column < tl.where(low < high, D, 0)
        tl.store(total + own, tl.load(total + own, mask=written, other=0) + tl.sum(sums, axis=0), mask=written)
