"""Triton kernels over the lattice: sums over all paths, step by step, and the posteriors they give.

Cell (t, u) of utterance n lies at `starts[n] + t * rows[n] + u`, packed or padded alike. Sums are float64, since they
reach thousands; the logarithm of 1 + x in between is as wide as the scores, which loses nothing that they have.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _log_sum(a, b, WIDE: tl.constexpr):
    """log(exp(a) + exp(b)), also of minus infinity; NaN where one is NaN, though the maximum alone would hide it."""
    gap = tl.where((a == float("-inf")) & (b == float("-inf")), 0.0, -tl.abs(a - b))
    return tl.maximum(a, b) + tl.log(1 + tl.exp(gap.to(WIDE))).to(tl.float64)


@triton.jit
def sum_paths(
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
    WIDE: tl.constexpr,
    PLACES: tl.constexpr,
):
    """Write the sums over paths from the start to each cell and from there to the end, and the log-probability.

    Two programs an utterance, one a direction: neither waits for the other.
    """
    n = tl.program_id(0)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    start = tl.load(starts + n)
    if tl.program_id(1) == 0:
        _from_start(blank, label, alpha, totals + n, start, row, T, U, ONE_SYMBOL, WIDE, PLACES)
    else:
        _to_end(blank, label, beta, start, row, T, U, ONE_SYMBOL, WIDE, PLACES)


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
    WIDE: tl.constexpr,
    PLACES: tl.constexpr,
):
    u = tl.arange(0, PLACES)
    before = tl.maximum(u - 1, 0)
    found = tl.full([PLACES], float("-inf"), tl.float64)
    to_blank, to_label = _scores_into(blank, label, start, row, T, U, 0, u, ONE_SYMBOL)
    for step in range(T if ONE_SYMBOL else T + U):
        # The next step's scores are on their way while this one is computed.
        next_blank, next_label = _scores_into(blank, label, start, row, T, U, step + 1, u, ONE_SYMBOL)
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        # A place holds its sum of the step before: a blank comes from the same place, a label from the one before it.
        a = found + to_blank
        b = tl.where(u > 0, tl.gather(found, before, 0), float("-inf")) + to_label
        found = tl.where(here, _log_sum(a, b, WIDE), float("-inf"))
        found = tl.where((step == 0) & (u == 0), 0.0, found)
        tl.store(alpha + start + t * row + u, found, mask=here)
        to_blank, to_label = next_blank, next_label
    # The last step was that of the last cell; where a frame has one symbol, of the whole last frame.
    last = start + (T - 1) * row + u
    end = tl.where(T > 0, U, -1)
    sums = found + tl.load(blank + last, mask=u == end, other=float("-inf")).to(tl.float64)
    if ONE_SYMBOL:
        b = found + tl.load(label + last, mask=u == end - 1, other=float("-inf")).to(tl.float64)
        sums = _log_sum(sums, tl.gather(b, before, 0), WIDE)
    tl.store(total + u * 0, sums, mask=u == U)


@triton.jit
def _scores_into(blank, label, start, row, T, U, step, u, ONE_SYMBOL: tl.constexpr):
    """The scores of the arcs into the cells of a step: of a blank, and of a label; minus infinity where none is."""
    t = step + u * 0 if ONE_SYMBOL else step - u
    here = (t >= 0) & (t < T) & (u <= U)
    cell = start + t * row + u
    # A label takes the path to the next place, in the next frame where a frame has one symbol.
    by_label = row + 1 if ONE_SYMBOL else 1
    emits = here & (u > 0) & (t > 0) if ONE_SYMBOL else here & (u > 0)
    a = tl.load(blank + cell - row, mask=here & (t > 0), other=float("-inf")).to(tl.float64)
    b = tl.load(label + cell - by_label, mask=emits, other=float("-inf")).to(tl.float64)
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
    WIDE: tl.constexpr,
    PLACES: tl.constexpr,
):
    u = tl.arange(0, PLACES)
    after = tl.minimum(u + 1, PLACES - 1)
    found = tl.full([PLACES], float("-inf"), tl.float64)
    steps = T if ONE_SYMBOL else T + U
    from_blank, from_label = _scores_out(blank, label, start, row, T, U, steps - 1, u, ONE_SYMBOL)
    for back in range(steps):
        step = steps - 1 - back
        next_blank, next_label = _scores_out(blank, label, start, row, T, U, step - 1, u, ONE_SYMBOL)
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        a = tl.where((t == T - 1) & (u == U), 0.0, found) + from_blank
        b = tl.where(u < U, tl.gather(found, after, 0), float("-inf"))
        if ONE_SYMBOL:
            b = tl.where((t == T - 1) & (u == U - 1), 0.0, b)
        b += from_label
        found = tl.where(here, _log_sum(a, b, WIDE), float("-inf"))
        tl.store(beta + start + t * row + u, found, mask=here)
        from_blank, from_label = next_blank, next_label


@triton.jit
def _scores_out(blank, label, start, row, T, U, step, u, ONE_SYMBOL: tl.constexpr):
    """The scores of the arcs out of the cells of a step: of a blank, and of a label; minus infinity where none is."""
    t = step + u * 0 if ONE_SYMBOL else step - u
    here = (t >= 0) & (t < T) & (u <= U)
    cell = start + t * row + u
    a = tl.load(blank + cell, mask=here, other=float("-inf")).to(tl.float64)
    b = tl.load(label + cell, mask=here & (u < U), other=float("-inf")).to(tl.float64)
    return a, b


@triton.jit
def posteriors(
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
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the posteriors of each cell's blank and label, times the utterance's weights; one program a block."""
    n = tl.program_id(1)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = place // row
    u = place - t * row
    here = (t < T) & (u <= U)
    cell = tl.load(starts + n) + place
    total = tl.load(totals + n)
    # An utterance without any path has no posteriors: zeros, and not NaN.
    total = tl.where(total == float("-inf"), float("inf"), total)
    before = tl.load(alpha + cell, mask=here, other=float("-inf")) - total
    by_label = row + 1 if ONE_SYMBOL else 1
    emits = here & (u < U) & (t < T - 1) if ONE_SYMBOL else here & (u < U)
    a = tl.load(beta + cell + row, mask=here & (t < T - 1), other=float("-inf"))
    a = tl.where((t == T - 1) & (u == U), 0.0, a)
    b = tl.load(beta + cell + by_label, mask=emits, other=float("-inf"))
    if ONE_SYMBOL:
        b = tl.where((t == T - 1) & (u == U - 1), 0.0, b)
    a += tl.load(blank + cell, mask=here, other=float("-inf")).to(tl.float64)
    b += tl.load(label + cell, mask=here & (u < U), other=float("-inf")).to(tl.float64)
    tl.store(to_blank + cell, tl.exp((before + a).to(WIDE)) * tl.load(blank_weights + n), mask=here)
    tl.store(to_label + cell, tl.exp((before + b).to(WIDE)) * tl.load(label_weights + n), mask=here)
