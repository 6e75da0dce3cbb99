"""The fused loss on a GPU: real cells packed, logits chunk by chunk, kernels of our own around the library's products.

Nothing here waits for the device. Where lengths came from the host, the number of cells is known; where they lie on the
device it is bounded by the padded sizes, kernels skip what is not real, and matrix products compute zeros there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import cell_kernels as cells
from stopwav.losses import lattice_kernels as lattice
from stopwav.losses.job import Inputs, Job
from stopwav.losses.lengths import Lengths
from stopwav.losses.precision import add_product
from stopwav.losses.recursion import Posteriors, Topology

# Activations and logits of one chunk. At batch 30 of LibriSpeech in bf16 that is a fifth of the cells: enough to fill
# the device, and few enough that the whole loss stays below 400 MB.
WORKSPACE_BYTES = 256_000_000
# Of the memory that is free, where that is less: gradients of the inputs have to fit beside it.
WORKSPACE_SHARE = 0.5
# Rows of a matrix are multiples of 16 values long: the fast matrix products ask for rows that begin at multiples of 16
# bytes, and Triton moves as many at once where it can tell that they do.
ROW_VALUES = 16
# Values that a program holds at a time: 32 in each of 128 threads. Rows that are wider take several programs or turns.
TILE = 4096
WIDEST_TILE = 1024
# Programs that share the rows of a chunk, for each of the device's processors: enough to hide the wait for memory.
PROGRAMS_EACH = 8


@dataclass(frozen=True)
class _Packing:
    """Where the real cells lie; `cells` is how many there are, or the most that there may be."""

    starts: Tensor
    widths: Tensor
    encoding_rows: Tensor
    prediction_rows: Tensor
    cells: int


def check_device(device: torch.device) -> None:
    """Refuse a device on which Triton's kernels do not run; a CPU interprets them where it is told to."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise StopwavError(f"backend 'triton' runs on a GPU, not on {device.type!r}; give backend='torch'")


def losses(inputs: Inputs, job: Job) -> tuple[Tensor, tuple[Tensor, ...]]:
    """-log p of every utterance, and what each real cell keeps."""
    joiner = _Joiner(inputs, job, _packing(job.lengths, inputs))
    kept = joiner.scores()
    alpha, totals = _sum_from_start(*kept[2:], *joiner.place(), job.lengths, "standard", joiner.places)
    packing = joiner.packing
    return -totals.to(job.arithmetic.wide), (
        *(*kept, alpha, totals),
        *(packing.starts, packing.widths, packing.encoding_rows, packing.prediction_rows),
    )


def gradients(inputs: Inputs, job: Job, kept: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input in the wide type."""
    peaks, spreads, blank, label, alpha, totals, starts, widths, encoding_rows, prediction_rows = kept
    joiner = _Joiner(inputs, job, _Packing(starts, widths, encoding_rows, prediction_rows, len(encoding_rows)))
    weights = -grad_losses.to(peaks.dtype)
    arcs = _posteriors(
        *(blank, label, alpha, totals),
        *(weights, weights * (1 + job.fastemit_lambda)),
        *joiner.place(),
        job.lengths,
        "standard",
        joiner.places,
    )
    return joiner.gradients(peaks, spreads, *arcs)


def lattice_posteriors(blank: Tensor, label: Tensor, lengths: Lengths, topology: Topology) -> Posteriors:
    """The log-probability of each utterance and the posteriors of its arcs, from padded scores `(N, T, U + 1)`."""
    batch, frames, places = blank.shape
    wide = torch.promote_types(blank.dtype, torch.float32)
    blank, label = blank.to(wide).contiguous(), label.to(wide).contiguous()
    starts = torch.arange(batch, device=blank.device) * (frames * places)
    rows = torch.full_like(starts, places)
    ones = blank.new_ones(batch)
    alpha, totals = _sum_from_start(blank, label, starts, rows, lengths, topology, places)
    arcs = _posteriors(blank, label, alpha, totals, ones, ones, starts, rows, lengths, topology, places)
    return Posteriors(totals, *arcs)


class _Joiner:
    """The joiner of a job over packed cells."""

    def __init__(self, inputs: Inputs, job: Job, packing: _Packing) -> None:
        self._job, self.packing = job, packing
        self._encodings, self._predictions = inputs.encodings.contiguous(), inputs.predictions.contiguous()
        self._bias = inputs.bias.contiguous()
        self._batch, self._frames, self._width = inputs.encodings.shape
        self.places = inputs.predictions.shape[1]
        self._symbols = len(inputs.weight)
        padding = (0, -self._width % ROW_VALUES, 0, -self._symbols % ROW_VALUES)
        self._weight = functional.pad(inputs.weight.to(job.arithmetic.dtype), padding)
        self._wide = _triton_type(job.arithmetic.wide)

    def place(self) -> tuple[Tensor, Tensor]:
        """Where each utterance's cells start, and how long its rows are."""
        return self.packing.starts, self.packing.widths

    def scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Peak, spread, blank score and label score of every real cell."""
        kept = [self._encodings.new_zeros(self.packing.cells, dtype=self._job.arithmetic.wide) for _ in range(4)]
        for hidden, logits, first, size in self._chunks():
            self._fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            rows, columns = _tile(self._symbols)
            cells.score_cells[(triton.cdiv(size, rows),)](
                *(logits, self._bias, self._job.targets, *self._maps()),
                *kept,
                *(first, size, *self._sizes(), self._job.blank),
                WIDE=self._wide,
                ROWS=rows,
                COLUMNS=columns,
            )
        peaks, spreads, blank, label = kept
        return peaks, spreads, blank, label

    def gradients(self, peaks: Tensor, spreads: Tensor, to_blank: Tensor, to_label: Tensor) -> Inputs:
        """The gradient of each input, from what of the loss comes to each cell's blank and label."""
        wide = self._job.arithmetic.wide
        to_encodings = torch.zeros_like(self._encodings, dtype=wide)
        to_predictions = torch.zeros_like(self._predictions, dtype=wide)
        to_weight = torch.zeros_like(self._weight, dtype=wide)
        programs = _programs(self._encodings.device)
        bias_parts = to_weight.new_zeros(programs, len(self._weight))
        rows, columns = _tile(len(self._weight))
        for hidden, logits, first, size in self._chunks():
            self._fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            cells.logit_gradient[(programs, triton.cdiv(len(self._weight), columns))](
                *(logits, self._bias, self._job.targets, *self._maps()),
                *(peaks, spreads, to_blank, to_label, bias_parts),
                *(first, size, *self._sizes(), self._job.blank),
                WIDE=self._wide,
                ROWS=rows,
                COLUMNS=columns,
            )
            add_product(to_weight, logits.T, hidden)
            # The activations are done with; what goes back to them takes their place.
            torch.mm(logits, self._weight, out=hidden)
            self._add_up(hidden, first, size, to_encodings, over_frames=False)
            self._add_up(hidden, first, size, to_predictions, over_frames=True)
        to_bias = bias_parts.sum(dim=0)[: self._symbols]
        return Inputs(to_encodings, to_predictions, to_weight[: self._symbols, : self._width].clone(), to_bias)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor, int, int]]:
        """Room for the activations and the logits of each chunk, its first cell, and how many it has."""
        symbols, width = self._weight.shape
        cell_bytes = (symbols + width) * self._weight.element_size()
        most = self._job.chunk_cells or max(1, _workspace_bytes(self._weight.device) // cell_bytes)
        # Chunks of one size: a small one at the end would leave the device idle.
        count = -(-self.packing.cells // most)
        step = -(-self.packing.cells // count)
        hidden, logits = self._weight.new_empty(step, width), self._weight.new_empty(step, symbols)
        for first in range(0, self.packing.cells, step):
            size = min(step, self.packing.cells - first)
            yield hidden[:size], logits[:size], first, size

    def _fill(self, hidden: Tensor, first: int, size: int) -> None:
        rows, columns = _tile(hidden.shape[1])
        cells.pack_hidden[(triton.cdiv(size, rows), triton.cdiv(hidden.shape[1], columns))](
            *(hidden, self._encodings, self._predictions, self.packing.encoding_rows, self.packing.prediction_rows),
            *(first, size, self._width, hidden.shape[1]),
            ACTIVATION=self._job.activation,
            WIDE=self._wide,
            ROWS=rows,
            COLUMNS=columns,
        )

    def _add_up(self, grads: Tensor, first: int, size: int, total: Tensor, over_frames: bool) -> None:
        # Narrow blocks of columns, as there are few rows to share among the programs; 128 bytes of bf16 at least.
        columns = min(64, triton.next_power_of_2(self._width))
        cells.add_up_rows[(_programs(grads.device), triton.cdiv(self._width, columns))](
            *(grads, self._encodings, self._predictions, total, self.packing.encoding_rows),
            *(self.packing.starts, self.packing.widths, self._job.lengths.frames),
            *(first, size, self._batch, self._frames, self.places, self._width, grads.shape[1]),
            OVER_FRAMES=over_frames,
            ACTIVATION=self._job.activation,
            WIDE=self._wide,
            ROWS=32,
            COLUMNS=columns,
        )

    def _maps(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.packing.widths, self.packing.encoding_rows, self.packing.prediction_rows

    def _sizes(self) -> tuple[int, int, int, int]:
        return self._frames, self.places, self._symbols, len(self._weight)


def _packing(lengths: Lengths, inputs: Inputs) -> _Packing:
    """Where the real cells of a batch lie."""
    batch, frames, _ = inputs.encodings.shape
    places = inputs.predictions.shape[1]
    widths = lengths.labels + 1
    starts = functional.pad((lengths.frames * widths).cumsum(0), (1, 0))
    count = batch * frames * places
    if lengths.on_host is not None:
        count = sum(frame_count * (label_count + 1) for frame_count, label_count in lengths.on_host)
    if count >= 2**31:
        raise StopwavError(f"a batch of {count} cells; at most {2**31 - 1} are counted: make the batch smaller")
    rows = [torch.full((count,), -1, dtype=torch.int32, device=widths.device) for _ in range(2)]
    block = min(TILE, triton.next_power_of_2(frames * places))
    cells.map_cells[(batch, triton.cdiv(frames * places, block))](
        *(starts, widths, lengths.frames, rows[0], rows[1], frames, places), BLOCK=block
    )
    return _Packing(starts, widths, rows[0], rows[1], count)


def _sum_from_start(
    blank: Tensor, label: Tensor, starts: Tensor, rows: Tensor, lengths: Lengths, topology: Topology, places: int
) -> tuple[Tensor, Tensor]:
    """The sum over paths to each cell, and the log-probability of each utterance."""
    alpha = torch.empty_like(blank, dtype=torch.float64)
    totals = alpha.new_empty(len(lengths.frames))
    lattice.sum_from_start[(len(totals),)](
        *(blank, label, alpha, totals, starts, rows, lengths.frames, lengths.labels),
        **_lattice_options(blank, topology, places),
    )
    return alpha, totals


def _posteriors(
    blank: Tensor,
    label: Tensor,
    alpha: Tensor,
    totals: Tensor,
    blank_weights: Tensor,
    label_weights: Tensor,
    starts: Tensor,
    rows: Tensor,
    lengths: Lengths,
    topology: Topology,
    places: int,
) -> tuple[Tensor, Tensor]:
    """The weighted posteriors of each cell's blank and label, zero outside of an utterance."""
    to_blank, to_label = torch.zeros_like(blank), torch.zeros_like(label)
    lattice.posteriors_from_end[(len(totals),)](
        *(blank, label, alpha, totals, torch.empty_like(alpha), blank_weights, label_weights, to_blank, to_label),
        *(starts, rows, lengths.frames, lengths.labels),
        **_lattice_options(blank, topology, places),
    )
    return to_blank, to_label


def _lattice_options(blank: Tensor, topology: Topology, places: int) -> dict[str, object]:
    block = triton.next_power_of_2(places)
    # One place a thread, up to the 8 warps that still talk to each other quickly.
    warps = min(8, max(1, block // 32))
    one_symbol = topology == "one-symbol-per-frame"
    return {"ONE_SYMBOL": one_symbol, "WIDE": _triton_type(blank.dtype), "PLACES": block, "num_warps": warps}


def _tile(width: int) -> tuple[int, int]:
    """Rows and columns of a block that a program holds."""
    columns = min(WIDEST_TILE, triton.next_power_of_2(width))
    return max(1, TILE // columns), columns


def _triton_type(dtype: torch.dtype) -> object:
    return tl.float64 if dtype == torch.float64 else tl.float32


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # interpreted, one after the other: two, so that sharing rows is tried
    return PROGRAMS_EACH * torch.cuda.get_device_properties(device).multi_processor_count


def _workspace_bytes(device: torch.device) -> int:
    """How much a chunk may take: what is free decides where that is little."""
    if device.type != "cuda":
        return WORKSPACE_BYTES
    free = torch.cuda.mem_get_info(device)[0]
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(WORKSPACE_BYTES, int(WORKSPACE_SHARE * (free + idle)))
