"""Sums over all paths of the lattices of a batch, and posteriors, by Triton's kernels; cells packed or padded."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from stopwav.losses import lattice_kernels as lattice
from stopwav.losses.lengths import Lengths
from stopwav.losses.recursion import Posteriors, Topology

# Cells whose posteriors a program computes: several in each of 128 threads.
BLOCK = 1024


def lattice_posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> Posteriors:
    """The log-probability of each utterance and the posteriors of its arcs, from padded scores `(N, T, U + 1)`."""
    batch, frames, places = blank.shape
    wide = torch.promote_types(blank.dtype, torch.float32)
    blank, label = blank.to(wide).contiguous(), label.to(wide).contiguous()
    starts = torch.arange(batch, device=blank.device) * (frames * places)
    rows = torch.full_like(starts, places)
    ones = blank.new_ones(batch)
    sums = sum_paths(blank, label, starts, rows, lengths, topology, places)
    arcs = weighted_posteriors(blank, label, *sums, ones, ones, starts, rows, lengths, topology, frames * places)
    return Posteriors(sums[2], *arcs)


def sum_paths(
    blank: Tensor, label: Tensor, starts: Tensor, rows: Tensor, lengths: Lengths, topology: Topology, places: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over paths from the start to each cell and from there to the end, and each utterance's log p."""
    alpha, beta = (torch.empty_like(blank, dtype=torch.float64) for _ in range(2))
    totals = alpha.new_empty(len(lengths.frames))
    block = triton.next_power_of_2(places)
    lattice.sum_paths[(len(totals), 2)](
        *(blank, label, alpha, beta, totals, starts, rows, lengths.frames, lengths.labels),
        ONE_SYMBOL=topology == "one-symbol-per-frame",
        WIDE=triton_type(blank.dtype),
        PLACES=block,
        # One place a thread, up to the 8 warps that still talk to each other quickly.
        num_warps=min(8, max(1, block // 32)),
    )
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
    most_cells: int,
) -> tuple[Tensor, Tensor]:
    """The weighted posteriors of each cell's blank and label, zero outside of an utterance of at most so many cells."""
    to_blank, to_label = torch.zeros_like(blank), torch.zeros_like(label)
    block = min(BLOCK, triton.next_power_of_2(most_cells))
    # Utterances second: CUDA takes 65,535 there, and more blocks than that make up one utterance of an hour.
    lattice.posteriors[(triton.cdiv(most_cells, block), len(totals))](
        *(blank, label, alpha, beta, totals, blank_weights, label_weights, to_blank, to_label),
        *(starts, rows, lengths.frames, lengths.labels),
        ONE_SYMBOL=topology == "one-symbol-per-frame",
        WIDE=triton_type(blank.dtype),
        BLOCK=block,
    )
    return to_blank, to_label


def triton_type(dtype: torch.dtype) -> object:
    return tl.float64 if dtype == torch.float64 else tl.float32
