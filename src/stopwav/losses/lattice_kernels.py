"""Triton kernels over the lattice: sums over all paths, one program an utterance, step by step.

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
def sum_from_start(
    blank,
    label,
    alpha,
    totals,
    starts,
    rows,
    frames,
    labels,
    ONE_SYMBOL: tl.constexpr,
    WIDE: tl.constexpr,
    PLACES: tl.constexpr,
):
    """Write the sum over paths from the start to each cell, and the log-probability of the utterance."""
    n = tl.program_id(0)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    start = tl.load(starts + n)
    u = tl.arange(0, PLACES)
    # How far a label takes the path in memory: to the next place, in the next frame where a frame has one symbol.
    by_label = row + 1 if ONE_SYMBOL else 1
    for step in range(T if ONE_SYMBOL else T + U):
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        cell = start + t * row + u
        stays = here & (t > 0)
        emits = here & (u > 0) & (t > 0) if ONE_SYMBOL else here & (u > 0)
        a = tl.load(alpha + cell - row, mask=stays, other=float("-inf"))
        a += tl.load(blank + cell - row, mask=stays, other=0).to(tl.float64)
        b = tl.load(alpha + cell - by_label, mask=emits, other=float("-inf"))
        b += tl.load(label + cell - by_label, mask=emits, other=0).to(tl.float64)
        found = tl.where((step == 0) & (u == 0), 0.0, _log_sum(a, b, WIDE))
        tl.store(alpha + cell, found, mask=here)
        # The next step reads what other threads have written in this one.
        tl.debug_barrier()
    last = start + (T - 1) * row + U
    a = tl.load(alpha + last, mask=T > 0, other=float("-inf"))
    a += tl.load(blank + last, mask=T > 0, other=0).to(tl.float64)
    if ONE_SYMBOL:
        ends = (T > 0) & (U > 0)
        b = tl.load(alpha + last - 1, mask=ends, other=float("-inf"))
        b += tl.load(label + last - 1, mask=ends, other=0).to(tl.float64)
        a = _log_sum(a, b, WIDE)
    tl.store(totals + n, a)


@triton.jit
def posteriors_from_end(
    blank,
    label,
    alpha,
    totals,
    beta,
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
    PLACES: tl.constexpr,
):
    """Write the posteriors of each cell's blank and label, times the utterance's weights."""
    n = tl.program_id(0)
    T = tl.load(frames + n).to(tl.int32)
    U = tl.load(labels + n).to(tl.int32)
    row = tl.load(rows + n)
    start = tl.load(starts + n)
    total = tl.load(totals + n)
    # An utterance without any path has no posteriors: zeros, and not NaN.
    total = tl.where(total == float("-inf"), float("inf"), total)
    u = tl.arange(0, PLACES)
    by_label = row + 1 if ONE_SYMBOL else 1
    steps = T if ONE_SYMBOL else T + U
    for back in range(steps):
        step = steps - 1 - back
        t = step + u * 0 if ONE_SYMBOL else step - u
        here = (t >= 0) & (t < T) & (u <= U)
        cell = start + t * row + u
        stays = here & (t < T - 1)
        emits = here & (u < U) & (t < T - 1) if ONE_SYMBOL else here & (u < U)
        a = tl.load(beta + cell + row, mask=stays, other=float("-inf"))
        a = tl.where((t == T - 1) & (u == U), 0.0, a)
        b = tl.load(beta + cell + by_label, mask=emits, other=float("-inf"))
        if ONE_SYMBOL:
            b = tl.where((t == T - 1) & (u == U - 1), 0.0, b)
        a += tl.load(blank + cell, mask=here, other=float("-inf")).to(tl.float64)
        b += tl.load(label + cell, mask=here & (u < U), other=float("-inf")).to(tl.float64)
        tl.store(beta + cell, _log_sum(a, b, WIDE), mask=here)
        before = tl.load(alpha + cell, mask=here, other=float("-inf")) - total
        by_blank = tl.exp((before + a).to(WIDE)) * tl.load(blank_weights + n)
        by_label_ = tl.exp((before + b).to(WIDE)) * tl.load(label_weights + n)
        tl.store(to_blank + cell, by_blank, mask=here)
        tl.store(to_label + cell, by_label_, mask=here)
        tl.debug_barrier()
