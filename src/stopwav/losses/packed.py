"""The fused loss on a GPU: real cells packed, logits chunk by chunk, kernels of our own around the library's products.

Nothing here waits for the device. Where lengths came from the host, the number of cells is known; where they lie on the
device it is bounded by the padded sizes, kernels skip what is not real, and matrix products compute zeros there.
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
from stopwav.losses.job import Inputs, Job
from stopwav.losses.lattice_sums import sum_paths, triton_type, weighted_posteriors
from stopwav.losses.lengths import Lengths
from stopwav.losses.precision import add_product

# Activations and logits of one chunk, where they fit. At batch 30 of LibriSpeech in bf16 that is a fifth of the cells:
# enough to fill the device, and few enough that the whole loss stays below 400 MB.
WORKSPACE_BYTES = 256_000_000
# Rows of a matrix are multiples of 16 values long: the fast matrix products ask for rows that begin at multiples of 16
# bytes, and Triton moves as many at once where it can tell that they do.
ROW_VALUES = 16
# Values that a program holds at a time: 32 in each of 128 threads. Rows that are wider take several programs or turns.
TILE = 4096
WIDEST_TILE = 1024
# Programs that share the rows of a chunk, for each of the device's processors: enough to hide the wait for memory.
PROGRAMS_EACH = 8
# Earlier versions of Triton launch a compiled kernel without its constants.
RELAUNCHES = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)


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
    sums = sum_paths(*kept[2:], *joiner.place(), job.lengths, "standard", joiner.places)
    packing = joiner.packing
    return -sums[2].to(job.arithmetic.wide), (
        *(*kept, *sums),
        *(packing.starts, packing.widths, packing.encoding_rows, packing.prediction_rows),
    )


def gradients(inputs: Inputs, job: Job, kept: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input in the wide type."""
    peaks, spreads, blank, label, alpha, beta, totals, starts, widths, encoding_rows, prediction_rows = kept
    joiner = _Joiner(inputs, job, _Packing(starts, widths, encoding_rows, prediction_rows, len(encoding_rows)))
    weights = -grad_losses.to(peaks.dtype)
    arcs = weighted_posteriors(
        *(blank, label, alpha, beta, totals),
        *(weights, weights * (1 + job.fastemit_lambda)),
        *joiner.place(),
        job.lengths,
        "standard",
        inputs.encodings.shape[1] * joiner.places,
    )
    return joiner.gradients(peaks, spreads, *arcs)


class _Launcher:
    """A kernel that is launched chunk by chunk on the same tensors.

    Of most launches the host's part is finding out from the arguments which compilation they want; that is the first
    one's in all of them. `options` are the kernel's last parameters, in their order.
    """

    def __init__(self, kernel: Any, **options: object) -> None:
        self._kernel, self._options = kernel, options
        self._compiled: Any = None

    def __call__(self, grid: tuple[int, int], *arguments: object) -> None:
        if self._compiled is None:
            compiled = self._kernel[grid](*arguments, **self._options)
            # An interpreted kernel is not compiled, and stays None.
            self._compiled = compiled if RELAUNCHES else None
        else:
            self._compiled[(*grid, 1)](*arguments, *self._options.values())


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
        self._wide = triton_type(job.arithmetic.wide)

    def place(self) -> tuple[Tensor, Tensor]:
        """Where each utterance's cells start, and how long its rows are."""
        return self.packing.starts, self.packing.widths

    def scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Peak, spread, blank score and label score of every real cell."""
        kept = [self._encodings.new_zeros(self.packing.cells, dtype=self._job.arithmetic.wide) for _ in range(4)]
        rows, columns = _tile(self._symbols)
        fill = self._filling()
        score = _Launcher(cells.score_cells, WIDE=self._wide, ROWS=rows, COLUMNS=columns)
        for hidden, logits, first, size in self._chunks():
            fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            score(
                (triton.cdiv(size, rows), 1),
                *(logits, self._bias, self._job.targets, *self._maps()),
                *kept,
                *(first, size, *self._sizes(), self._job.blank),
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
        fill = self._filling()
        differentiate = _Launcher(cells.logit_gradient, WIDE=self._wide, ROWS=rows, COLUMNS=columns)
        add_to_encodings = self._adding(to_encodings, over_frames=False)
        add_to_predictions = self._adding(to_predictions, over_frames=True)
        for hidden, logits, first, size in self._chunks():
            fill(hidden, first, size)
            torch.mm(hidden, self._weight.T, out=logits)
            differentiate(
                (programs, triton.cdiv(len(self._weight), columns)),
                *(logits, self._bias, self._job.targets, *self._maps()),
                *(peaks, spreads, to_blank, to_label, bias_parts),
                *(first, size, *self._sizes(), self._job.blank),
            )
            add_product(to_weight, logits.T, hidden)
            # The activations are done with; what goes back to them takes their place.
            torch.mm(logits, self._weight, out=hidden)
            add_to_encodings(hidden, first, size)
            add_to_predictions(hidden, first, size)
        to_bias = bias_parts.sum(dim=0)[: self._symbols]
        return Inputs(to_encodings, to_predictions, to_weight[: self._symbols, : self._width].clone(), to_bias)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor, int, int]]:
        """Room for the activations and the logits of each chunk, its first cell, and how many it has."""
        hidden, logits = self._room()
        for first in range(0, self.packing.cells, len(hidden)):
            size = min(len(hidden), self.packing.cells - first)
            yield hidden[:size], logits[:size], first, size

    def _room(self) -> tuple[Tensor, Tensor]:
        """Room for the activations and the logits of one chunk."""
        symbols, width = self._weight.shape
        most = self._job.chunk_cells or WORKSPACE_BYTES // ((symbols + width) * self._weight.element_size()) or 1
        while True:
            # Chunks of one size: a small one at the end would leave the device idle.
            step = -(-self.packing.cells // -(-self.packing.cells // most))
            try:
                return self._weight.new_empty(step, width), self._weight.new_empty(step, symbols)
            except torch.OutOfMemoryError:
                if most == 1 or self._job.chunk_cells is not None:
                    raise
            # A quarter: what comes later has to fit beside it. Asking what is free takes longer than a chunk does.
            most = max(1, min(most, self.packing.cells) // 4)

    def _filling(self) -> Callable[[Tensor, int, int], None]:
        """What writes the activations of a chunk."""
        width = self._weight.shape[1]
        rows, columns = _tile(width)
        options = {"ACTIVATION": self._job.activation, "WIDE": self._wide, "ROWS": rows, "COLUMNS": columns}
        launch = _Launcher(cells.pack_hidden, **options)

        def fill(hidden: Tensor, first: int, size: int) -> None:
            launch(
                (triton.cdiv(size, rows), triton.cdiv(width, columns)),
                *(hidden, self._encodings, self._predictions),
                *(self.packing.encoding_rows, self.packing.prediction_rows, first, size, self._width, width),
            )

        return fill

    def _adding(self, total: Tensor, over_frames: bool) -> Callable[[Tensor, int, int], None]:
        """What adds a chunk's gradients up to the rows that they belong to."""
        # Narrow blocks of columns, as there are few rows to share among the programs; 128 bytes of bf16 at least.
        columns = min(64, triton.next_power_of_2(self._width))
        options = {"OVER_FRAMES": over_frames, "ACTIVATION": self._job.activation, "WIDE": self._wide}
        launch = _Launcher(cells.add_up_rows, **options, ROWS=32, COLUMNS=columns)

        def add(grads: Tensor, first: int, size: int) -> None:
            launch(
                (_programs(grads.device), triton.cdiv(self._width, columns)),
                *(grads, self._encodings, self._predictions, total, self.packing.encoding_rows),
                *(self.packing.starts, self.packing.widths, self._job.lengths.frames),
                *(first, size, self._batch, self._frames, self.places, self._width, grads.shape[1]),
            )

        return add

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
    cells.map_cells[(triton.cdiv(frames * places, block), batch)](
        *(starts, widths, lengths.frames, rows[0], rows[1], frames, places), BLOCK=block
    )
    return _Packing(starts, widths, rows[0], rows[1], count)


def _tile(width: int) -> tuple[int, int]:
    """Rows and columns of a block that a program holds."""
    columns = min(WIDEST_TILE, triton.next_power_of_2(width))
    return max(1, TILE // columns), columns


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # interpreted, one after the other: two, so that sharing rows is tried
    return PROGRAMS_EACH * torch.cuda.get_device_properties(device).multi_processor_count
