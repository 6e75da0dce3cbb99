"""The Triton kernel of `best_symbols`: logits are read once, and stay in registers until the best are found."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def best_symbols_kernel(
    logits, blank, best, symbols, size, BLOCK: tl.constexpr, COUNT: tl.constexpr, COUNTED: tl.constexpr
):
    """Write the log-probability of the blank, which is last, and the best of the others, in one program per row."""
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    values = tl.load(logits + row * size + places, mask=places < size - 1, other=float("-inf")).to(tl.float32)
    last = tl.load(logits + row * size + size - 1).to(tl.float32)
    top = tl.maximum(tl.max(values, axis=0), last)
    total = tl.log(tl.sum(tl.exp(values - top), axis=0) + tl.exp(last - top)) + top
    tl.store(blank + row, last - total)
    ranks = tl.arange(0, COUNTED)
    scores = tl.full((COUNTED,), float("-inf"), tl.float32)
    found = tl.zeros((COUNTED,), tl.int64)
    for rank in range(COUNT):
        score = tl.max(values, axis=0)
        place = tl.min(tl.where(values == score, places, BLOCK), axis=0)
        scores = tl.where(ranks == rank, score - total, scores)
        found = tl.where(ranks == rank, place.to(tl.int64), found)
        values = tl.where(places == place, float("-inf"), values)
    tl.store(best + row * COUNT + ranks, scores, mask=ranks < COUNT)
    # A row of padding may hold no numbers, and then has no place: its symbol must be one all the same.
    tl.store(symbols + row * COUNT + ranks, tl.minimum(found, size - 2), mask=ranks < COUNT)


def best_symbols_by_kernel(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probability of the blank, and of the likeliest symbols, and these, best first."""
    rows, size = logits.shape
    blank = logits.new_empty(rows, dtype=torch.float32)
    best = logits.new_empty(rows, count, dtype=torch.float32)
    symbols = logits.new_empty(rows, count, dtype=torch.long)
    block, counted = triton.next_power_of_2(size - 1), triton.next_power_of_2(count)
    best_symbols_kernel[(rows,)](
        logits.contiguous(), blank, best, symbols, size, BLOCK=block, COUNT=count, COUNTED=counted, num_warps=4
    )
    return blank, best, symbols
