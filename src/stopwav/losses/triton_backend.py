"""The fused loss on a GPU: real cells packed, logits chunk by chunk, Triton kernels around PyTorch's matrix products.

Nothing here waits for the device. With lengths on the host, the number of cells is known; with lengths on the device it
is bounded by the padded sizes, the kernels skip cells that are not real, and matrix products compute zeros there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import cell_kernels as cells
from stopwav.losses.backend import Arguments, Inputs
from stopwav.losses.lattice_kernels import sum_paths, triton_type, weighted_posteriors
from stopwav.losses.lengths import Lengths
from stopwav.losses.precision import add_product

# For the activations and logits of one chunk. At batch 30 of LibriSpeech in bf16 that is a fifth of the cells: enough
# to fill the device, and few enough that the whole loss stays below 400 MB.
WORKSPACE_BYTES = 256_000_000
# Rows of a matrix are padded to multiples of 16 values: fast matrix products need rows that begin at multiples of 16
# bytes, and Triton then loads 16 bytes at once.
ROW_VALUES = 16
# Values that a program holds at a time: 32 in each of 128 threads.
TILE = 4096
# Columns of a block at most; wider rows take several programs or iterations.
MAX_COLUMNS = 1024
# Programs per multiprocessor that share the rows of a chunk: enough to hide the latency of memory.
PROGRAMS_PER_PROCESSOR = 8
# Before version 3.3, Triton launches a compiled kernel without its constants.
CAN_RELAUNCH = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)


@dataclass(frozen=True)
class _Packing:
    """The layout of the real cells; `cells` is their number, or its upper bound."""

    starts: Tensor
    widths: Tensor
    encoding_rows: Tensor
    prediction_rows: Tensor
    cells: int


def check_device(device: torch.device) -> None:
    """Refuse a device on which Triton kernels do not run; a CPU interprets them if TRITON_INTERPRET=1."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise StopwavError(f"backend 'triton' runs on a GPU, not on {device.type!r}; give backend='torch'")


def losses(inputs: Inputs, arguments: Arguments) -> tuple[Tensor, tuple[Tensor, ...]]:
    """-log p of every utterance, and the saved numbers of each real cell."""
    joiner = _Joiner(inputs, arguments, _packing(arguments.lengths, inputs))
    scores = joiner.scores()
    sums = sum_paths(*scores[2:], *joiner.rows(), arguments.lengths, "standard", joiner.positions)
    packing = joiner.packing
    return -sums[2].to(arguments.arithmetic.sum_dtype), (
        *(*scores, *sums),
        *(packing.starts, packing.widths, packing.encoding_rows, packing.prediction_rows),
    )


def gradients(inputs: Inputs, arguments: Arguments, saved: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input, in the type of the sums."""
    peaks, spreads, blank, label, alpha, beta, totals, starts, widths, encoding_rows, prediction_rows = saved
    joiner = _Joiner(inputs, arguments, _Packing(starts, widths, encoding_rows, prediction_rows, len(encoding_rows)))
    weights = -grad_losses.to(peaks.dtype)
    arcs = weighted_posteriors(
        *(blank, label, alpha, beta, totals),
        *(weights, weights * (1 + arguments.fastemit_lambda)),
        *joiner.rows(),
        arguments.lengths,
        "standard",
        inputs.encodings.shape[1] * joiner.positions,
    )
    return joiner.gradients(peaks, spreads, *arcs)


class _Launcher:
    """A kernel that is launched chunk by chunk on the same tensors.

    Most of the host's time in a launch goes into finding the compiled variant for the arguments, which is the same for
    all chunks: it is found once. `options` are the kernel's last parameters, in their order.
    """

    def __init__(self, kernel: Any, **options: object) -> None:
        self._kernel, self._options = kernel, options
        self._compiled: Any = None

    def __call__(self, grid: tuple[int, int], *values: object) -> None:
        if self._compiled is None:
            compiled = self._kernel[grid](*values, **self._options)
            # An interpreted kernel is not compiled, and stays None.
            self._compiled = compiled if CAN_RELAUNCH else None
        else:
            self._compiled[(*grid, 1)](*values, *self._options.values())


class _Joiner:
    """The joiner of a batch over packed cells."""

    def __init__(self, inputs: Inputs, arguments: Arguments, packing: _Packing) -> None:
        self._arguments, self.packing = arguments, packing
        self._encodings, self._predictions = inputs.encodings.contiguous(), inputs.predictions.contiguous()
        self._bias = inputs.bias.contiguous()
        self._batch, self._frames, self._width = inputs.encodings.shape
        self.positions = inputs.predictions.shape[1]
        self._symbols = len(inputs.weight)
        padding = (0, -self._width % ROW_VALUES, 0, -self._symbols % ROW_VALUES)
        self._weight = functional.pad(inputs.weight.to(arguments.arithmetic.dtype), padding)
        self._sum_dtype = triton_type(arguments.arithmetic.sum_dtype)

    def rows(self) -> tuple[Tensor, Tensor]:
        """The first cell of each utterance, and the length of its rows."""
        return self.packing.starts, self.packing.widths

    def scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Peak, spread, blank score and label score of every real cell."""
        sum_dtype = self._arguments.arithmetic.sum_dtype
        scores = [self._encodings.new_zeros(self.packing.cells, dtype=sum_dtype) for _ in range(4)]
        rows, columns = _tile(self._symbols)
        fill = self._fill_launcher()
        score = _Launcher(cells.score_cells, SUM_DTYPE=self._sum_dtype, ROWS=rows, COLUMNS=columns)
        for hidden, logits, first, size in self._chunks():
            fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            score(
                (triton.cdiv(size, rows), 1),
                *(logits, self._bias, self._arguments.targets, *self._maps()),
                *scores,
                *(first, size, *self._sizes(), self._arguments.blank),
            )
        peaks, spreads, blank, label = scores
        return peaks, spreads, blank, label

    def gradients(self, peaks: Tensor, spreads: Tensor, to_blank: Tensor, to_label: Tensor) -> Inputs:
        """The gradient of each input, from those of each cell's blank and label scores."""
        sum_dtype = self._arguments.arithmetic.sum_dtype
        to_encodings = torch.zeros_like(self._encodings, dtype=sum_dtype)
        to_predictions = torch.zeros_like(self._predictions, dtype=sum_dtype)
        to_weight = torch.zeros_like(self._weight, dtype=sum_dtype)
        programs = _programs(self._encodings.device)
        bias_parts = to_weight.new_zeros(programs, len(self._weight))
        rows, columns = _tile(len(self._weight))
        fill = self._fill_launcher()
        differentiate = _Launcher(cells.logit_gradient, SUM_DTYPE=self._sum_dtype, ROWS=rows, COLUMNS=columns)
        add_to_encodings = self._add_launcher(to_encodings, over_frames=False)
        add_to_predictions = self._add_launcher(to_predictions, over_frames=True)
        for hidden, logits, first, size in self._chunks():
            fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            differentiate(
                (programs, triton.cdiv(len(self._weight), columns)),
                *(logits, self._bias, self._arguments.targets, *self._maps()),
                *(peaks, spreads, to_blank, to_label, bias_parts),
                *(first, size, *self._sizes(), self._arguments.blank),
            )
            add_product(to_weight, logits.T, hidden)
            # The activations are no longer needed; their gradient overwrites them.
            torch.mm(logits, self._weight, out=hidden)
            add_to_encodings(hidden, first, size)
            add_to_predictions(hidden, first, size)
        to_bias = bias_parts.sum(dim=0)[: self._symbols]
        return Inputs(to_encodings, to_predictions, to_weight[: self._symbols, : self._width].clone(), to_bias)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor, int, int]]:
        """Buffers for the activations and the logits of each chunk, its first cell, and its number of cells."""
        hidden, logits = self._buffers()
        for first in range(0, self.packing.cells, len(hidden)):
            size = min(len(hidden), self.packing.cells - first)
            yield hidden[:size], logits[:size], first, size

    def _buffers(self) -> tuple[Tensor, Tensor]:
        """Allocate the activations and the logits of one chunk."""
        symbols, width = self._weight.shape
        cell_bytes = (symbols + width) * self._weight.element_size()
        max_cells = self._arguments.chunk_cells or WORKSPACE_BYTES // cell_bytes or 1
        while True:
            # Chunks of equal size: a small one at the end would leave the device idle.
            step = -(-self.packing.cells // -(-self.packing.cells // max_cells))
            try:
                return self._weight.new_empty(step, width), self._weight.new_empty(step, symbols)
            except torch.OutOfMemoryError:
                if max_cells == 1 or self._arguments.chunk_cells is not None:
                    raise
            # A quarter, since later allocations must fit too. Querying the free memory takes longer than a chunk does.
            max_cells = max(1, min(max_cells, self.packing.cells) // 4)

    def _fill_launcher(self) -> Callable[[Tensor, int, int], None]:
        """A function that writes the activations of a chunk."""
        width = self._weight.shape[1]
        rows, columns = _tile(width)
        options = {
            "ACTIVATION": self._arguments.activation,
            "SUM_DTYPE": self._sum_dtype,
            "ROWS": rows,
            "COLUMNS": columns,
        }
        launch = _Launcher(cells.pack_hidden, **options)

        def fill(hidden: Tensor, first: int, size: int) -> None:
            launch(
                (triton.cdiv(size, rows), triton.cdiv(width, columns)),
                *(hidden, self._encodings, self._predictions),
                *(self.packing.encoding_rows, self.packing.prediction_rows, first, size, self._width, width),
            )

        return fill

    def _add_launcher(self, total: Tensor, over_frames: bool) -> Callable[[Tensor, int, int], None]:
        """A function that adds a chunk's gradients to the rows of the inputs that its cells came from."""
        # Narrow blocks of columns, as there are few rows to share among the programs; at least 128 bytes of bf16.
        columns = min(64, triton.next_power_of_2(self._width))
        options = {"OVER_FRAMES": over_frames, "ACTIVATION": self._arguments.activation, "SUM_DTYPE": self._sum_dtype}
        launch = _Launcher(cells.add_up_rows, **options, ROWS=32, COLUMNS=columns)

        def add(grads: Tensor, first: int, size: int) -> None:
            launch(
                (_programs(grads.device), triton.cdiv(self._width, columns)),
                *(grads, self._encodings, self._predictions, total, self.packing.encoding_rows),
                *(self.packing.starts, self.packing.widths, self._arguments.lengths.frames),
                *(first, size, self._batch, self._frames, self.positions, self._width, grads.shape[1]),
            )

        return add

    def _maps(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.packing.widths, self.packing.encoding_rows, self.packing.prediction_rows

    def _sizes(self) -> tuple[int, int, int, int]:
        return self._frames, self.positions, self._symbols, len(self._weight)


def _packing(lengths: Lengths, inputs: Inputs) -> _Packing:
    """The layout of the real cells of a batch."""
    batch, frames, _ = inputs.encodings.shape
    positions = inputs.predictions.shape[1]
    widths = lengths.labels + 1
    starts = functional.pad((lengths.frames * widths).cumsum(0), (1, 0))
    count = batch * frames * positions
    if lengths.on_host is not None:
        count = sum(frame_count * (label_count + 1) for frame_count, label_count in lengths.on_host)
    if count >= 2**31:
        raise StopwavError(f"a batch of {count} cells; at most {2**31 - 1} are supported: make the batch smaller")
    rows = [torch.full((count,), -1, dtype=torch.int32, device=widths.device) for _ in range(2)]
    block = min(TILE, triton.next_power_of_2(frames * positions))
    cells.map_cells[(triton.cdiv(frames * positions, block), batch)](
        *(starts, widths, lengths.frames, rows[0], rows[1], frames, positions), BLOCK=block
    )
    return _Packing(starts, widths, rows[0], rows[1], count)


def _tile(width: int) -> tuple[int, int]:
    """Rows and columns of the block that a program holds."""
    columns = min(MAX_COLUMNS, triton.next_power_of_2(width))
    return max(1, TILE // columns), columns


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # interpreted, one after the other: two, so that tests share rows among programs
    return PROGRAMS_PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
