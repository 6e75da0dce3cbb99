"""The fused loss on a GPU: real cells packed, chunk by chunk, by Triton kernels and PyTorch's matrix products.

Nothing here waits for the device. With lengths on the host, the number of cells is known; with lengths on the device it
is bounded by the padded sizes, the kernels skip cells that are not real, and matrix products compute zeros there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses import cell_kernels as cells
from stopwav.losses import product_kernels as products
from stopwav.losses import sum_kernels as sums
from stopwav.losses.backend import Arguments, Inputs
from stopwav.losses.kernel_launch import KernelLaunch, blocks_of, next_power_of_2
from stopwav.losses.lattice_kernels import sum_paths, triton_type, weighted_posteriors
from stopwav.losses.packing import FRAMES, PLACES, Packing, most_parts, pack
from stopwav.losses.precision import add_product, rounded_to_tf32
from stopwav.losses.product_tiles import Tile, choose_tiles

# For the activations of one chunk, the gradients of its logits, and partial sums. At batch 30 of LibriSpeech in bf16
# that is a fifth of the cells: enough to fill the device, and few enough that the whole loss stays below 400 MB.
WORKSPACE_BYTES = 320_000_000
# Values of the activations that a program holds at a time: 32 in each of 128 threads.
VALUES = 4096
# Columns of a block at most; wider rows take several programs.
MAX_COLUMNS = 1024
# Columns of a tile that a warp adds up: more would not fit its registers.
SUM_COLUMNS = 64
# Programs per multiprocessor that share the tiles of a chunk at most: with one for each tile none waits for another.
SUM_PROGRAMS_PER_PROCESSOR = 256


def check_device(device: torch.device) -> None:
    """Refuse a device on which Triton kernels do not run; a CPU interprets them if TRITON_INTERPRET=1."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise StopwavError(f"backend 'triton' runs on a GPU, not on {device.type!r}; give backend='torch'")


def losses(inputs: Inputs, arguments: Arguments) -> tuple[Tensor, tuple[Tensor, ...]]:
    """-log p of every utterance, and the saved numbers of each real cell."""
    joiner = _Joiner(inputs, arguments, pack(arguments.lengths, inputs))
    scores = joiner.scores()
    paths = sum_paths(*scores[2:], *joiner.rows(), arguments.lengths, "standard", joiner.positions)
    return -paths[2].to(arguments.arithmetic.sum_dtype), (*scores, *paths, joiner.weight, *joiner.packing.tensors)


def gradients(inputs: Inputs, arguments: Arguments, saved: tuple[Tensor, ...], grad_losses: Tensor) -> Inputs:
    """The gradient of each input, in the type of the sums."""
    peaks, spreads, blank, label, alpha, beta, totals, weight, *packed = saved
    joiner = _Joiner(inputs, arguments, Packing(*packed), weight)
    weights = -grad_losses.to(peaks.dtype)
    arcs = weighted_posteriors(
        *(blank, label, alpha, beta, totals),
        *(weights, weights * (1 + arguments.fastemit_lambda) if arguments.fastemit_lambda else weights),
        *joiner.rows(),
        arguments.lengths,
        "standard",
        inputs.encodings.shape[1] * joiner.positions,
        packed=arguments.lengths.on_host is not None,
    )
    return joiner.gradients(peaks, spreads, *arcs)


@dataclass(frozen=True)
class _Workspace:
    """The buffers of one chunk of the backward pass."""

    hidden: Tensor
    grads: Tensor
    encoding_sums: Tensor
    prediction_sums: Tensor
    tiles: int


_Buffers = TypeVar("_Buffers")


class _Joiner:
    """The joiner of a batch over packed cells."""

    def __init__(self, inputs: Inputs, arguments: Arguments, packing: Packing, weight: Tensor | None = None) -> None:
        self._arguments, self.packing = arguments, packing
        self._encodings, self._predictions = inputs.encodings.contiguous(), inputs.predictions.contiguous()
        self._bias = inputs.bias.contiguous()
        self._batch, self._frames, self._width = inputs.encodings.shape
        self.positions = inputs.predictions.shape[1]
        self._symbols = len(inputs.weight)
        self._sum_dtype = arguments.arithmetic.sum_dtype
        self._tiles = choose_tiles(arguments.arithmetic, self._symbols, inputs.weight.device)
        # Padded, so that no load in a product needs a mask: width and vocabulary as depths, and the rows of the weight.
        depth = self._tiles.depth
        self._deep_width, self._deep_symbols = _up(self._width, depth), _up(self._symbols, depth)
        self._given_weight, self._padded_weight = inputs.weight, weight

    @cached_property
    def weight(self) -> Tensor:
        """The weight in the type of the products, with rows and columns of zeros."""
        if self._padded_weight is not None:
            return self._padded_weight
        shape = _up(self._deep_symbols, self._tiles.columns), self._deep_width
        padded = self._given_weight.new_zeros(shape, dtype=self._arguments.arithmetic.dtype)
        padded[: self._symbols, : self._width] = self._given_weight
        return rounded_to_tf32(padded) if self._tiles.arithmetic == "tf32" else padded

    def rows(self) -> tuple[Tensor, Tensor]:
        """The first cell of each utterance, and the length of its rows."""
        return self.packing.starts, self.packing.widths

    def scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Peak, spread, blank score and label score of every real cell."""
        # Where only the device knows which cells are real, the scores of others are zero.
        new = torch.empty if self._arguments.lengths.on_host is not None else torch.zeros
        peaks, spreads, blank, label = (
            new(self.packing.cells, dtype=self._sum_dtype, device=self._encodings.device) for _ in range(4)
        )
        fill, tile = self._fill_launcher(), self._tiles.scores
        score = self._product_launcher(
            products.score_cells, tile, V=self._symbols, DP=self._deep_width, BLANK=self._arguments.blank
        )
        step, hidden = self._allocated(self._deep_width * self._arguments.arithmetic.dtype.itemsize, self._new_hidden)
        for first, size in self._chunks(step):
            # Before anything else: the device has work while the host prepares the rest.
            fill(hidden, first, size)
            score(
                (blocks_of(size, tile.rows), 1),
                *(hidden, *self._factors, self._bias, self._arguments.targets, *self._maps()),
                *(peaks, spreads, blank, label, first, size, self._frames, self.positions),
            )
        return peaks, spreads, blank, label

    def gradients(self, peaks: Tensor, spreads: Tensor, to_blank: Tensor, to_label: Tensor) -> Inputs:
        """The gradient of each input, from those of each cell's blank and label scores."""
        step, buffers = self._allocated(self._gradient_bytes(), self._new_workspace)
        tile = self._tiles.grads
        blocks = blocks_of(self._deep_symbols, tile.columns)
        sizes = {"V": self._symbols, "VP": self._deep_symbols, "DP": self._deep_width, "BLANK": self._arguments.blank}
        differentiate = self._product_launcher(products.logit_gradient, tile, **sizes)
        fill, multiply = self._fill_launcher(), self._multiply_launcher()
        to_encodings, to_predictions, to_weight, bias_parts = self._zeros(
            *(self._encodings.shape, self._predictions.shape, (self._deep_symbols, self._deep_width)),
            (blocks_of(step, tile.rows), self._deep_symbols),
        )
        add_up = self._add_launcher(buffers, to_encodings, to_predictions)
        for first, size in self._chunks(step):
            hidden, grads = buffers.hidden[:size], buffers.grads[:size]
            fill(hidden, first, size)
            differentiate(
                (blocks_of(size, tile.rows) * blocks, 1),
                *(hidden, *self._factors, self._bias, self._arguments.targets, *self._maps()),
                *(peaks, spreads, to_blank, to_label, grads, bias_parts),
                *(first, size, self._frames, self.positions),
            )
            add_product(to_weight, grads.T, hidden)
            # The activations are no longer needed; their gradient overwrites them.
            multiply(grads, hidden)
            add_up(first, size)
        to_bias = bias_parts.sum(dim=0)[: self._symbols]
        return Inputs(to_encodings, to_predictions, to_weight[: self._symbols, : self._width].clone(), to_bias)

    def _zeros(self, *shapes: Sequence[int]) -> list[Tensor]:
        """Tensors of zeros for sums, by one launch; each begins at a multiple of 16 bytes."""
        counts = [_up(math.prod(shape), 16) for shape in shapes]
        zeros = self._encodings.new_zeros(sum(counts), dtype=self._sum_dtype).split(counts)
        return [part[: math.prod(shape)].view(*shape) for part, shape in zip(zeros, shapes, strict=True)]

    def _chunks(self, step: int) -> Iterator[tuple[int, int]]:
        """The first cell of each chunk, and its number of cells."""
        for first in range(0, self.packing.cells, step):
            yield first, min(step, self.packing.cells - first)

    def _allocated(self, cell_bytes: int, allocate: Callable[[int], _Buffers]) -> tuple[int, _Buffers]:
        """The cells of a chunk, and its buffers: as large as the workspace, or less where memory is short."""
        max_cells = self._arguments.chunk_cells or WORKSPACE_BYTES // cell_bytes or 1
        while True:
            step = self._step(max_cells)
            try:
                return step, allocate(step)
            except torch.OutOfMemoryError:
                if max_cells == 1 or self._arguments.chunk_cells is not None:
                    raise
            # A quarter, since later allocations must fit too. Querying the free memory takes longer than a chunk does.
            max_cells = max(1, min(max_cells, self.packing.cells) // 4)

    def _step(self, max_cells: int) -> int:
        """The cells of a chunk: all of equal size, since a small one at the end would leave the device idle."""
        step = -(-self.packing.cells // -(-self.packing.cells // max_cells))
        # And a whole number of tiles on each processor, since the last ones would leave it idle just so.
        wave = self._tiles.scores.rows * _processors(self._encodings.device)
        if self._arguments.chunk_cells is None and wave <= max_cells:
            step = min(_up(step, wave), max_cells // wave * wave)
        return step

    def _gradient_bytes(self) -> int:
        """The memory of a cell in the backward pass: activations, gradient of logits, and its share of the sums."""
        sums = 2 * self._width * self._sum_dtype.itemsize
        if self._arguments.lengths.on_host is not None:
            # One for each frame and each position of a tile, and half of that again for tiles at the edges.
            sums = sums * 3 * (FRAMES + PLACES) // (4 * FRAMES * PLACES)
        return (self._deep_width + self._deep_symbols) * self._arguments.arithmetic.dtype.itemsize + sums

    def _new_hidden(self, step: int) -> Tensor:
        """Memory for the activations of a chunk; products read whole tiles."""
        rows = _up(step, max(self._tiles.scores.rows, self._tiles.grads.rows))
        return self._encodings.new_empty(rows, self._deep_width, dtype=self._arguments.arithmetic.dtype)

    def _new_workspace(self, step: int) -> _Workspace:
        hidden = self._new_hidden(step)
        grads = hidden.new_empty(len(hidden), self._deep_symbols)
        tiles, *counts = most_parts(self._arguments.lengths, step, self.positions)
        encoding_sums, prediction_sums = (
            hidden.new_empty(count, self._width, dtype=self._sum_dtype) for count in counts
        )
        return _Workspace(hidden, grads, encoding_sums, prediction_sums, tiles)

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        return self._split(self.weight)

    def _split(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """A right factor for the kernels: as it is, or in two numbers of TF32."""
        if self._tiles.arithmetic != "split":
            return right, right
        high = rounded_to_tf32(right)
        return high, rounded_to_tf32(right - high)

    def _product_launcher(self, kernel: Any, tile: Tile, **sizes: int) -> KernelLaunch:
        options = {"ARITHMETIC": self._tiles.arithmetic, "SUM_DTYPE": triton_type(self._sum_dtype)}
        block = {"ROWS": tile.rows, "COLUMNS": tile.columns, "BLOCK": tile.depth}
        return KernelLaunch(kernel, {**sizes, **options, **block}, tile.warps, tile.stages)

    def _multiply_launcher(self) -> Callable[[Tensor, Tensor], None]:
        """A function that multiplies the gradient of a chunk's logits by the weight."""
        weight = self.weight[: self._deep_symbols]
        if self._tiles.arithmetic == "ieee":
            return lambda grads, hidden: _multiply(grads, weight, hidden)
        # In TF32 both factors must have the symbols in their rows, or cuBLAS takes one and a half times as long.
        tile = self._tiles.grads
        tile = replace(tile, columns=min(tile.columns, max(16, next_power_of_2(self._deep_width))))
        turned = weight.T.contiguous()
        if self._deep_width % tile.columns:
            turned = functional.pad(turned, (0, 0, 0, -self._deep_width % tile.columns))
        if self._tiles.arithmetic == "tf32":
            return lambda grads, hidden: _multiply(grads, turned[: self._deep_width].T, hidden)
        launch = self._product_launcher(products.multiply, tile, VP=self._deep_symbols, DP=self._deep_width)
        factors = self._split(turned)

        def multiply(grads: Tensor, hidden: Tensor) -> None:
            programs = blocks_of(len(grads), tile.rows) * blocks_of(self._deep_width, tile.columns)
            launch((programs, 1), *(grads, *factors, hidden, len(grads)))

        return multiply

    def _fill_launcher(self) -> Callable[[Tensor, int, int], None]:
        """A function that writes the activations of a chunk."""
        width = self._deep_width
        columns = min(MAX_COLUMNS, next_power_of_2(width))
        rows = max(1, VALUES // columns)
        options: dict[str, object] = {"D": self._width, "DP": width, "ACTIVATION": self._arguments.activation}
        options["ARITHMETIC"] = self._tiles.arithmetic
        block = {"SUM_DTYPE": triton_type(self._sum_dtype), "ROWS": rows, "COLUMNS": columns}
        launch = KernelLaunch(cells.pack_hidden, {**options, **block})

        def fill(hidden: Tensor, first: int, size: int) -> None:
            launch(
                (blocks_of(size, rows), blocks_of(width, columns)),
                *(hidden, self._encodings, self._predictions),
                *(self.packing.encoding_rows, self.packing.prediction_rows, first, size),
            )

        return fill

    def _add_launcher(
        self, buffers: _Workspace, to_encodings: Tensor, to_predictions: Tensor
    ) -> Callable[[int, int], None]:
        """A function that adds a chunk's gradients to the rows of the inputs that its cells came from."""
        columns = min(SUM_COLUMNS, max(16, next_power_of_2(self._width)))
        blocks = blocks_of(self._width, columns)
        programs = min(buffers.tiles, blocks_of(SUM_PROGRAMS_PER_PROCESSOR * _processors(to_encodings.device), blocks))
        tile = {"SUM_DTYPE": triton_type(self._sum_dtype), "FRAMES": FRAMES, "PLACES": PLACES, "COLUMNS": columns}
        sizes = {"D": self._width, "DP": self._deep_width, "ACTIVATION": self._arguments.activation}
        add_up_tiles = KernelLaunch(sums.add_up_tiles, {**sizes, **tile}, warps=1)
        add_up_parts = KernelLaunch(sums.add_up_parts, {"D": self._width, **tile}, warps=1)
        parts = buffers.encoding_sums, buffers.prediction_sums
        packing, frames = self.packing, self._arguments.lengths.frames
        maps = (
            *(packing.encoding_rows, packing.starts, packing.widths, frames),
            *(packing.tiles, packing.encoding_parts, packing.prediction_parts),
        )
        bounds = self._batch, self._frames, self.positions

        def add_up(first: int, size: int) -> None:
            add_up_tiles(
                (programs, blocks),
                *(buffers.hidden, self._encodings, self._predictions, *parts, *maps, first, size, *bounds),
            )
            add_up_parts((programs, blocks), *(*parts, to_encodings, to_predictions, *maps, first, size, *bounds))

        return add_up

    def _maps(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.packing.widths, self.packing.encoding_rows, self.packing.prediction_rows


def _multiply(left: Tensor, right: Tensor, result: Tensor) -> None:
    torch.mm(left, right, out=result)


def _up(value: int, multiple: int) -> int:
    """The next multiple."""
    return -(-value // multiple) * multiple


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # interpreted
    return torch.cuda.get_device_properties(device).multi_processor_count
