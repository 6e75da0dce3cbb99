"""Triton kernels that take a chunk's gradients back to the input rows that its cells came from.

Rows of the encodings are sums over positions, those of the predictions sums over frames. The cells of an utterance are
divided into tiles of FRAMES by PLACES. A tile is read once and gives a partial sum for each of its frames and each of
its positions; a second kernel adds these up. Each sum has one program and a fixed order, so results repeat bit by bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stopwav.losses.cell_kernels import VARYING, slope


@triton.jit
def _first_rows(
    encoding_rows, encoding_parts, prediction_parts, widths, first, T, FRAMES: tl.constexpr, PLACES: tl.constexpr
):
    """The first utterance and frame of a chunk, and where its partial sums begin among those of the batch."""
    row = tl.maximum(tl.load(encoding_rows + first), 0)
    n = row // T
    t = row - n * T
    width = tl.load(widths + n).to(tl.int32)
    encoding_part = tl.load(encoding_parts + n) + t * tl.cdiv(width, PLACES)
    prediction_part = tl.load(prediction_parts + n) + t // FRAMES * width
    return n, t, encoding_part, prediction_part


@triton.jit(do_not_specialize=VARYING)
def add_up_tiles(
    grads,
    encodings,
    predictions,
    encoding_sums,
    prediction_sums,
    encoding_rows,
    starts,
    widths,
    frames,
    tiles,
    encoding_parts,
    prediction_parts,
    first,
    size,
    BATCH,
    T,
    POSITIONS,
    D: tl.constexpr,
    DP: tl.constexpr,
    ACTIVATION: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    FRAMES: tl.constexpr,
    PLACES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write the partial sums of a chunk's gradients, taken back through the activation."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    end = tl.minimum(first + size, tl.load(starts + BATCH)).to(tl.int32)
    n0, t0, encoding_base, prediction_base = _first_rows(
        encoding_rows, encoding_parts, prediction_parts, widths, first, T, FRAMES, PLACES
    )
    last = tl.maximum(tl.load(encoding_rows + tl.maximum(end, first + 1) - 1), 0)
    low = tl.load(tiles + n0) + t0 // FRAMES * tl.cdiv(tl.load(widths + n0), PLACES)
    high = tl.load(tiles + last // T) + (last % T // FRAMES + 1) * tl.cdiv(tl.load(widths + last // T), PLACES)
    high = tl.where(first < end, high, low)
    n = n0
    for tile in range((low + tl.program_id(0)).to(tl.int32), high.to(tl.int32), tl.num_programs(0)):
        # A chunk has a few utterances.
        while tile >= tl.load(tiles + n + 1):
            n += 1
        width = tl.load(widths + n).to(tl.int32)
        start = tl.load(starts + n).to(tl.int32)
        places = tl.cdiv(width, PLACES)
        group = (tile - tl.load(tiles + n).to(tl.int32)) // places
        place = (tile - tl.load(tiles + n).to(tl.int32)) % places
        # The frames of this tile that have a cell in the chunk.
        t_low = tl.maximum(group * FRAMES, tl.maximum(first - start, 0) // width)
        t_high = tl.minimum(tl.load(frames + n).to(tl.int32), tl.cdiv(tl.maximum(end - start, 0), width))
        t_high = tl.minimum(group * FRAMES + FRAMES, t_high)
        if t_low < t_high:
            u = place * PLACES + tl.arange(0, PLACES)
            inside = (u < width)[:, None] & (column < D)[None, :]
            y = tl.load(
                predictions + (n * POSITIONS + u).to(tl.int64)[:, None] * D + column[None, :], mask=inside, other=0
            ).to(SUM_DTYPE)
            encoding_part = (tl.load(encoding_parts + n) - encoding_base).to(tl.int32) + place
            sums = tl.zeros([PLACES, COLUMNS], SUM_DTYPE)
            # Three stages: the gradients of the next frames are on their way while those of one are added.
            for t in tl.range(t_low, t_high, num_stages=3):
                cell = start + t * width + u
                here = (u < width) & (cell >= first) & (cell < end)
                grad = tl.load(
                    grads + (cell - first).to(tl.int64)[:, None] * DP + column[None, :], mask=here[:, None], other=0
                ).to(SUM_DTYPE)
                if ACTIVATION != "none":
                    own = tl.full([COLUMNS], n * T + t, tl.int64) * D + column
                    x = tl.load(encodings + own, mask=column < D, other=0).to(SUM_DTYPE)
                    grad *= slope(x[None, :] + y, ACTIVATION)
                sums += grad
                part = tl.full([COLUMNS], encoding_part + t * tl.cdiv(width, PLACES), tl.int64) * D + column
                tl.store(encoding_sums + part, tl.sum(grad, axis=0), mask=column < D)
            part = (tl.load(prediction_parts + n) - prediction_base).to(tl.int32) + group * width + u
            tl.store(prediction_sums + part.to(tl.int64)[:, None] * D + column[None, :], sums, mask=inside)


@triton.jit(do_not_specialize=VARYING)
def add_up_parts(
    encoding_sums,
    prediction_sums,
    encoding_total,
    prediction_total,
    encoding_rows,
    starts,
    widths,
    frames,
    tiles,
    encoding_parts,
    prediction_parts,
    first,
    size,
    BATCH,
    T,
    POSITIONS,
    D: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    FRAMES: tl.constexpr,
    PLACES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add the partial sums of a chunk to the gradients of the encodings and the predictions."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    end = tl.minimum(first + size, tl.load(starts + BATCH)).to(tl.int32)
    n0, t0, encoding_base, prediction_base = _first_rows(
        encoding_rows, encoding_parts, prediction_parts, widths, first, T, FRAMES, PLACES
    )
    last = tl.maximum(tl.load(encoding_rows + tl.maximum(end, first + 1) - 1), 0)
    encoding_low, prediction_low = n0 * T + t0, n0 * POSITIONS
    encodings = tl.where(first < end, last + 1 - encoding_low, 0)
    predictions = tl.where(first < end, (last // T + 1) * POSITIONS - prediction_low, 0)
    for index in range(tl.program_id(0), encodings + predictions, tl.num_programs(0)):
        # The rows of the encodings first, then those of the predictions.
        over_frames = index >= encodings
        row = tl.where(over_frames, prediction_low + index - encodings, encoding_low + index)
        n = tl.where(over_frames, row // POSITIONS, row // T)
        width = tl.load(widths + n).to(tl.int32)
        start = tl.load(starts + n).to(tl.int32)
        t_low = tl.maximum(first - start, 0) // width
        t_high = tl.minimum(tl.load(frames + n).to(tl.int32), tl.cdiv(tl.maximum(end - start, 0), width))
        if over_frames:
            u = row - n * POSITIONS
            if u < width:
                part = (tl.load(prediction_parts + n) - prediction_base).to(tl.int32) + u
                low, high = t_low // FRAMES, tl.cdiv(t_high, FRAMES)
                _add(prediction_sums, part, width, low, high, prediction_total, row, column, D, SUM_DTYPE, COLUMNS)
        else:
            t = row - n * T
            if t < t_high:
                places = tl.cdiv(width, PLACES)
                part = (tl.load(encoding_parts + n) - encoding_base).to(tl.int32) + t * places
                _add(encoding_sums, part, 1, 0, places, encoding_total, row, column, D, SUM_DTYPE, COLUMNS)


@triton.jit
def _add(
    parts,
    part,
    stride,
    low,
    high,
    total,
    row,
    column,
    D: tl.constexpr,
    SUM_DTYPE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add the rows `part + k * stride` to a row of a total, k from `low` to below `high`."""
    at = total + tl.full([COLUMNS], row, tl.int64) * D + column
    sums = tl.zeros([COLUMNS], SUM_DTYPE)
    for k in range(low, high):
        sums += tl.load(parts + tl.full([COLUMNS], part + k * stride, tl.int64) * D + column, mask=column < D, other=0)
    tl.store(at, tl.load(at, mask=column < D, other=0) + sums, mask=column < D)
