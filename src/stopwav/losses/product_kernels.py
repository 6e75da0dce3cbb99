"""Triton kernels that multiply and go on with the product while it is in registers: logits are never written.

Rows of the left factor are the cells of a chunk, those of the right factor symbols, or the width of the joiner; both
are padded so that no load in the loop needs a mask. The order of each sum depends on the shapes alone.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stopwav.losses.cell_kernels import VARYING, rounded_to_tf32


@triton.jit
def _product(
    left,
    right,
    right_low,
    row,
    column,
    DEPTH: tl.constexpr,
    ARITHMETIC: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The tile of `left @ right.T` in these rows and columns; both factors have rows of DEPTH values.

    `split` multiplies float32 numbers by three products in TF32: each factor is the sum of two of its numbers, and only
    the product of the smaller ones is left out. That is as exact as float32.
    """
    total = tl.zeros([ROWS, COLUMNS], SUM_DTYPE)
    left_at = row.to(tl.int64)[:, None] * DEPTH
    right_at = column.to(tl.int64)[None, :] * DEPTH
    for depth in range(0, DEPTH, BLOCK):
        k = depth + tl.arange(0, BLOCK)
        a = tl.load(left + left_at + k[None, :])
        b = tl.load(right + right_at + k[:, None])
        if ARITHMETIC == "split":
            a_high = rounded_to_tf32(a)
            total = tl.dot(rounded_to_tf32(a - a_high), b, total, input_precision="tf32")
            b_low = tl.load(right_low + right_at + k[:, None])
            total = tl.dot(a_high, b_low, total, input_precision="tf32")
            total = tl.dot(a_high, b, total, input_precision="tf32")
        else:
            total = tl.dot(a, b, total, input_precision=ARITHMETIC, out_dtype=SUM_DTYPE)
    return total


@triton.jit
def _label_of(cell, real, targets, widths, encoding_rows, prediction_rows, T, POSITIONS):
    """The next label of each cell, -1 where there is none."""
    n = tl.load(encoding_rows + cell, mask=real, other=0) // T
    position = tl.load(prediction_rows + cell, mask=real, other=0) - n * POSITIONS
    labelled = real & (position < tl.load(widths + n, mask=real, other=1) - 1)
    return tl.load(targets + n * (POSITIONS - 1) + position, mask=labelled, other=-1).to(tl.int32)


@triton.jit(do_not_specialize=VARYING)
def score_cells(
    hidden,
    weight,
    weight_low,
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
    DP: tl.constexpr,
    BLANK: tl.constexpr,
    ARITHMETIC: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write each cell's largest logit (peak), log-sum-exp minus that (spread), and the scores of blank and label.

    Peak and spread are separate: with logits of tens of thousands their sum would lose the decimals of the spread.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cell = first + row
    real = tl.load(encoding_rows + cell, mask=row < size, other=-1) >= 0
    target = _label_of(cell, real, targets, widths, encoding_rows, prediction_rows, T, POSITIONS)
    peak = tl.full([ROWS], float("-inf"), SUM_DTYPE)
    total = tl.zeros([ROWS], SUM_DTYPE)
    blank = tl.zeros([ROWS], SUM_DTYPE)
    label = tl.zeros([ROWS], SUM_DTYPE)
    for v in range(0, V, COLUMNS):
        column = v + tl.arange(0, COLUMNS)
        x = _product(hidden, weight, weight_low, row, column, DP, ARITHMETIC, SUM_DTYPE, ROWS, COLUMNS, BLOCK)
        x += tl.load(bias + column, mask=column < V, other=0).to(SUM_DTYPE)[None, :]
        x = tl.where((column < V)[None, :], x, float("-inf"))
        higher = tl.maximum(peak, tl.max(x, axis=1))
        # If everything is minus infinity so far, there is nothing to scale.
        level = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - level) + tl.sum(tl.exp(x - level[:, None]), axis=1)
        peak = higher
        label += tl.sum(tl.where(column[None, :] == target[:, None], x, 0.0), axis=1)
        if (v <= BLANK) & (v + COLUMNS > BLANK):
            blank += tl.sum(tl.where(column[None, :] == BLANK, x, 0.0), axis=1)
    spread = tl.log(total)
    label = tl.where(target >= 0, label - peak - spread, float("-inf"))
    tl.store(peaks + cell, peak, mask=real)
    tl.store(spreads + cell, spread, mask=real)
    tl.store(blank_scores + cell, blank - peak - spread, mask=real)
    tl.store(label_scores + cell, label, mask=real)


@triton.jit(do_not_specialize=VARYING)
def logit_gradient(
    hidden,
    weight,
    weight_low,
    bias,
    targets,
    widths,
    encoding_rows,
    prediction_rows,
    peaks,
    spreads,
    to_blank,
    to_label,
    grads,
    bias_parts,
    first,
    size,
    T,
    POSITIONS,
    V: tl.constexpr,
    VP: tl.constexpr,
    DP: tl.constexpr,
    BLANK: tl.constexpr,
    ARITHMETIC: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient of a chunk's logits, and add its columns to the sums for the bias of this block of rows."""
    # Neighbouring programs have the same rows, which are then read from memory once.
    blocks = tl.cdiv(VP, COLUMNS)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)
    block = tl.program_id(0) // blocks
    row = block * ROWS + tl.arange(0, ROWS)
    cell = first + row
    real = tl.load(encoding_rows + cell, mask=row < size, other=-1) >= 0
    target = _label_of(cell, real, targets, widths, encoding_rows, prediction_rows, T, POSITIONS)
    blank = tl.load(to_blank + cell, mask=real, other=0)
    label = tl.load(to_label + cell, mask=real, other=0)
    peak = tl.load(peaks + cell, mask=real, other=0)
    share = (blank + label) * tl.exp(-tl.load(spreads + cell, mask=real, other=0))
    x = _product(hidden, weight, weight_low, row, column, DP, ARITHMETIC, SUM_DTYPE, ROWS, COLUMNS, BLOCK)
    x += tl.load(bias + column, mask=column < V, other=0).to(SUM_DTYPE)[None, :]
    grad = -tl.exp(x - peak[:, None]) * share[:, None]
    grad += tl.where(column[None, :] == BLANK, blank[:, None], 0.0)
    grad += tl.where(column[None, :] == target[:, None], label[:, None], 0.0)
    # Zeros are written too: the matrix products that follow read every row and column.
    grad = tl.where(real[:, None] & (column < V)[None, :], grad, 0.0)
    at = grads + row.to(tl.int64)[:, None] * VP + column[None, :]
    tl.store(at, grad.to(grads.dtype.element_ty), mask=(row < size)[:, None] & (column < VP)[None, :])
    part = bias_parts + block.to(tl.int64) * VP + column
    tl.store(part, tl.load(part, mask=column < VP, other=0) + tl.sum(grad, axis=0), mask=column < VP)


@triton.jit(do_not_specialize=VARYING)
def multiply(
    grads,
    weight,
    weight_low,
    hidden,
    size,
    VP: tl.constexpr,
    DP: tl.constexpr,
    ARITHMETIC: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient of a chunk's activations; `weight` has a row per column of them."""
    blocks = tl.cdiv(DP, COLUMNS)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(0) // blocks * ROWS + tl.arange(0, ROWS)
    x = _product(grads, weight, weight_low, row, column, VP, ARITHMETIC, SUM_DTYPE, ROWS, COLUMNS, BLOCK)
    at = hidden + row.to(tl.int64)[:, None] * DP + column[None, :]
    tl.store(at, x.to(hidden.dtype.element_ty), mask=(row < size)[:, None] & (column < DP)[None, :])
