"""Triton kernels over the lattice, and their launch: sums over all paths, step by step, and the posteriors.

Cell (t, u) of utterance n is at `starts[n] + t * rows[n] + u`, packed or padded alike. Sums are in float64, since they
reach thousands; the logarithm of 1 + x within them has the type of the scores, which loses nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from stopwav.losses.kernel_launch import Launcher, blocks_of, next_power_of_2
from stopwav.losses.lengths import Lengths
from stopwav.losses.recursion import Posteriors, Topology

# Cells whose posteriors one program computes: several in each of 128 threads.
BLOCK = 1024


@triton.jit
def _log_sum(a, b, SCORE_DTYPE: tl.constexpr):
    """log(exp(a) + exp(b)), also of minus infinity; NaN if either is NaN, which the maximum alone would hide."""
    gap = tl.where((a == float("-inf")) & (b == float("-inf")), 0.0, -tl.abs(a - b))
    return tl.maximum(a, b) + tl.log(1 + tl.exp(gap.to(SCORE_DTYPE))).to(tl.float64)


@triton.jit
def sum_paths_kernel(
    blank,
    label,
    alpha,
    beta,
    totals,
    starts,
    rows,
    frames,
    labels,
    ONE_SYMBOL: tl.constexpr,
    SCORE_DTYPE: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """Write the sums over paths from the start to each cell and from there to the end, and the log-probability.

    Two programs per utterance, one for each direction, so that neither waits for the other.
    """
    n = tl.program_id(0)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    start = tl.load(starts + n)
    if tl.program_id(1) == 0:
        _from_start(blank, label, alpha, totals + n, start, row, T, U, ONE_SYMBOL, SCORE_DTYPE, POSITIONS)
    else:
        _to_end(blank, label, beta, start, row, T, U, ONE_SYMBOL, SCORE_DTYPE, POSITIONS)


@triton.jit
def _from_start(
    blank,
    label,
    alpha,
    total,
    start,
    row,
    T,
    U,
    ONE_SYMBOL: tl.constexpr,
    SCORE_DTYPE: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    u = tl.arange(0, POSITIONS)
    before = tl.maximum(u - 1, 0)
    sums = tl.full([POSITIONS], float("-inf"), tl.float64)
    to_blank, to_label = _scores_into(blank, label, start, row, T, U, 0, u, ONE_SYMBOL)
    for step in range(T if ONE_SYMBOL else T + U):
        # Load the next step's scores while this one is computed.
        next_blank, next_label = _scores_into(blank, label, start, row, T, U, step + 1, u, ONE_SYMBOL)
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        # `sums` are those of the step before: a blank comes from the same position, a label from the previous one.
        a = sums + to_blank
        b = tl.where(u > 0, tl.gather(sums, before, 0), float("-inf")) + to_label
        sums = tl.where(here, _log_sum(a, b, SCORE_DTYPE), float("-inf"))
        sums = tl.where((step == 0) & (u == 0), 0.0, sums)
        tl.store(alpha + start + t * row + u, sums, mask=here)
        to_blank, to_label = next_blank, next_label
    # The last step was that of the last cell; with one symbol per frame, that of the whole last frame.
    last = start + (T - 1) * row + u
    end = tl.where(T > 0, U, -1)
    ends = sums + tl.load(blank + last, mask=u == end, other=float("-inf")).to(tl.float64)
    if ONE_SYMBOL:
        b = sums + tl.load(label + last, mask=u == end - 1, other=float("-inf")).to(tl.float64)
        ends = _log_sum(ends, tl.gather(b, before, 0), SCORE_DTYPE)
    tl.store(total + u * 0, ends, mask=u == U)


@triton.jit
def _scores_into(blank, label, start, row, T, U, step, u, ONE_SYMBOL: tl.constexpr):
    """The scores of the blank and label arcs into the cells of a step; minus infinity where there is no arc."""
    t = step + u * 0 if ONE_SYMBOL else step - u
    here = (t >= 0) & (t < T) & (u <= U)
    cell = start + t * row + u
    # A label leads to the next position; with one symbol per frame, in the next frame.
    label_step = row + 1 if ONE_SYMBOL else 1
    emits = here & (u > 0) & (t > 0) if ONE_SYMBOL else here & (u > 0)
    a = tl.load(blank + cell - row, mask=here & (t > 0), other=float("-inf")).to(tl.float64)
    b = tl.load(label + cell - label_step, mask=emits, other=float("-inf")).to(tl.float64)
    return a, b


@triton.jit
def _to_end(
    blank,
    label,
    beta,
    start,
    row,
    T,
    U,
    ONE_SYMBOL: tl.constexpr,
    SCORE_DTYPE: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    u = tl.arange(0, POSITIONS)
    after = tl.minimum(u + 1, POSITIONS - 1)
    sums = tl.full([POSITIONS], float("-inf"), tl.float64)
    steps = T if ONE_SYMBOL else T + U
    from_blank, from_label = _scores_out(blank, label, start, row, T, U, steps - 1, u, ONE_SYMBOL)
    for back in range(steps):
        step = steps - 1 - back
        next_blank, next_label = _scores_out(blank, label, start, row, T, U, step - 1, u, ONE_SYMBOL)
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        a = tl.where((t == T - 1) & (u == U), 0.0, sums) + from_blank
        b = tl.where(u < U, tl.gather(sums, after, 0), float("-inf"))
        if ONE_SYMBOL:
            b = tl.where((t == T - 1) & (u == U - 1), 0.0, b)
        b += from_label
        sums = tl.where(here, _log_sum(a, b, SCORE_DTYPE), float("-inf"))
        tl.store(beta + start + t * row + u, sums, mask=here)
        from_blank, from_label = next_blank, next_label


@triton.jit
def _scores_out(blank, label, start, row, T, U, step, u, ONE_SYMBOL: tl.constexpr):
    """The scores of the blank and label arcs out of the cells of a step; minus infinity where there is no arc."""
    t = step + u * 0 if ONE_SYMBOL else step - u
    here = (t >= 0) & (t < T) & (u <= U)
    cell = start + t * row + u
    a = tl.load(blank + cell, mask=here, other=float("-inf")).to(tl.float64)
    b = tl.load(label + cell, mask=here & (u < U), other=float("-inf")).to(tl.float64)
    return a, b


@triton.jit
def posteriors_kernel(
    blank,
    label,
    alpha,
    beta,
    totals,
    blank_weights,
    label_weights,
    to_blank,
    to_label,
    starts,
    rows,
    frames,
    labels,
    ONE_SYMBOL: tl.constexpr,
    SCORE_DTYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the posteriors of each cell's blank and label, times the utterance's weights; one program per block."""
    n = tl.program_id(1)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = index // row
    u = index - t * row
    here = (t < T) & (u <= U)
    cell = tl.load(starts + n) + index
    total = tl.load(totals + n)
    # The posteriors of an utterance without a path are zero, and not NaN.
    total = tl.where(total == float("-inf"), float("inf"), total)
    before = tl.load(alpha + cell, mask=here, other=float("-inf")) - total
    label_step = row + 1 if ONE_SYMBOL else 1
    emits = here & (u < U) & (t < T - 1) if ONE_SYMBOL else here & (u < U)
    a = tl.load(beta + cell + row, mask=here & (t < T - 1), other=float("-inf"))
    a = tl.where((t == T - 1) & (u == U), 0.0, a)
    b = tl.load(beta + cell + label_step, mask=emits, other=float("-inf"))
    if ONE_SYMBOL:
        b = tl.where((t == T - 1) & (u == U - 1), 0.0, b)
    a += tl.load(blank + cell, mask=here, other=float("-inf")).to(tl.float64)
    b += tl.load(label + cell, mask=here & (u < U), other=float("-inf")).to(tl.float64)
    tl.store(to_blank + cell, tl.exp((before + a).to(SCORE_DTYPE)) * tl.load(blank_weights + n), mask=here)
    tl.store(to_label + cell, tl.exp((before + b).to(SCORE_DTYPE)) * tl.load(label_weights + n), mask=here)


def lattice_posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> Posteriors:
    """The log-probability of each utterance and the posteriors of its arcs, from padded scores `(N, T, U + 1)`."""
    batch, frames, positions = blank.shape
    sum_dtype = torch.promote_types(blank.dtype, torch.float32)
    blank, label = blank.to(sum_dtype).contiguous(), label.to(sum_dtype).contiguous()
    starts = torch.arange(batch, device=blank.device) * (frames * positions)
    rows = torch.full_like(starts, positions)
    ones = blank.new_ones(batch)
    sums = sum_paths(blank, label, starts, rows, lengths, topology, positions)
    arcs = weighted_posteriors(blank, label, *sums, ones, ones, starts, rows, lengths, topology, frames * positions)
    return Posteriors(sums[2], *arcs)


def sum_paths(
    blank: Tensor, label: Tensor, starts: Tensor, rows: Tensor, lengths: Lengths, topology: Topology, positions: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over paths from the start to each cell and from there to the end, and each utterance's log p."""
    alpha, beta = (torch.empty_like(blank, dtype=torch.float64) for _ in range(2))
    totals = alpha.new_empty(len(lengths.frames))
    block = next_power_of_2(positions)
    # One position per thread, up to the 8 warps that still communicate quickly.
    launch = Launcher(sum_paths_kernel, {**_options(blank, topology), "POSITIONS": block}, min(8, max(1, block // 32)))
    launch((len(totals), 2), *(blank, label, alpha, beta, totals, starts, rows, lengths.frames, lengths.labels))
    return alpha, beta, totals


def weighted_posteriors(
    blank: Tensor,
    label: Tensor,
    alpha: Tensor,
    beta: Tensor,
    totals: Tensor,
    blank_weights: Tensor,
    label_weights: Tensor,
    starts: Tensor,
    rows: Tensor,
    lengths: Lengths,
    topology: Topology,
    max_cells: int,
    packed: bool = False,
) -> tuple[Tensor, Tensor]:
    """The weighted posteriors of each cell's blank and label; an utterance has at most `max_cells`.

    They are zero outside of utterances; `packed` says that there is no such cell.
    """
    to_blank, to_label = (torch.empty_like(blank) if packed else torch.zeros_like(blank) for _ in range(2))
    block = min(BLOCK, next_power_of_2(max_cells))
    # Utterances second: CUDA allows 65,535 there, and an utterance of an hour has more blocks than that.
    launch = Launcher(posteriors_kernel, {**_options(blank, topology), "BLOCK": block})
    launch(
        (blocks_of(max_cells, block), len(totals)),
        *(blank, label, alpha, beta, totals, blank_weights, label_weights, to_blank, to_label),
        *(starts, rows, lengths.frames, lengths.labels),
    )
    return to_blank, to_label


def _options(scores: Tensor, topology: Topology) -> dict[str, object]:
    return {"ONE_SYMBOL": topology == "one-symbol-per-frame", "SCORE_DTYPE": triton_type(scores.dtype)}


def triton_type(dtype: torch.dtype) -> object:
    """Triton's float64 or float32."""
    return tl.float64 if dtype == torch.float64 else tl.float32
