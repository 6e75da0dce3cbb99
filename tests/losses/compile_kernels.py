"""Compile every Triton kernel for GPUs that need not be there, Ampere, Ada and Hopper, and print `compiled`.

A script of its own, since a process that interprets kernels cannot compile them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stopwav.losses import cell_kernels as cells
from stopwav.losses import lattice_kernels as lattice
from stopwav.losses import product_kernels as products
from stopwav.losses import sum_kernels as sums
from stopwav.losses.product_tiles import TileArithmetic, tiles_of

# Compute capability and shared memory of a program: A100, Ada, Hopper.
DEVICES = {80: 166_912, 89: 101_376, 90: 232_448}
INTEGERS = ("first", "size", "T", "POSITIONS", "BATCH")
POINTERS = {
    "*i64": ("starts", "widths", "frames", "labels", "rows", "targets", "tiles", "encoding_parts", "prediction_parts"),
    "*i32": ("encoding_rows", "prediction_rows"),
    "*fp64": ("alpha", "beta", "totals"),
}
INPUTS = ("hidden", "grads", "weight", "weight_low")


def argument_types(kernel: Any, constants: dict[str, Any], input_type: str, sum_type: str) -> dict[str, str]:
    """The type of each argument by its name; by default a pointer to numbers of the type of the sums."""
    types = {name: kind for kind, names in POINTERS.items() for name in names}
    types |= dict.fromkeys(INTEGERS, "i32") | dict.fromkeys(constants, "constexpr")
    types |= dict.fromkeys(INPUTS, f"*{input_type}")
    return {name: types.get(name, f"*{sum_type}") for name in kernel.arg_names}


def compile_kernel(
    kernel: Any, input_type: str, sum_type: str, capability: int = 90, warps: int = 4, stages: int = 1, **constants: Any
) -> None:
    """Compile a kernel to machine code that fits the shared memory of the device."""
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = ASTSource(
        fn=kernel, signature=argument_types(kernel, constants, input_type, sum_type), constexprs=constants
    )
    options = {"num_warps": warps, "num_stages": stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert compiled.metadata.shared <= DEVICES[capability], (kernel, capability, compiled.metadata.shared)


def compile_products(
    kind: TileArithmetic, dtype: torch.dtype, input_type: str, sum_type: str, capability: int, *kernels: Any
) -> None:
    """Compile kernels that multiply with the tiles that a device of this capability gets."""
    tiles = tiles_of(kind, dtype, 500, DEVICES[capability])
    for kernel in kernels:
        tile = tiles.scores if kernel is products.score_cells else tiles.grads
        compile_kernel(
            *(kernel, input_type, sum_type, capability, tile.warps, tile.stages),
            V=500,
            VP=512,
            DP=512,
            BLANK=0,
            ARITHMETIC=kind,
            SUM_DTYPE=tl.float64 if sum_type == "fp64" else tl.float32,
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            BLOCK=tile.depth,
        )


SIZES = {"D": 60, "DP": 64, "ROWS": 8, "COLUMNS": 64, "BLOCK": 256, "FRAMES": 16, "PLACES": 16}
# Every kernel in every type, and in every activation once: each compilation takes a second.
compile_kernel(cells.map_cells, "bf16", "fp32", **SIZES)
for input_type, sum_type, activation in (("bf16", "fp32", "tanh"), ("fp32", "fp32", "none"), ("fp64", "fp64", "relu")):
    options = {**SIZES, "SUM_DTYPE": tl.float64 if sum_type == "fp64" else tl.float32, "ACTIVATION": activation}
    compile_kernel(cells.pack_hidden, input_type, sum_type, **options)
    compile_kernel(sums.add_up_tiles, input_type, sum_type, warps=1, **options)
compile_kernel(sums.add_up_parts, "fp32", "fp32", warps=1, SUM_DTYPE=tl.float32, **SIZES)
BOTH = (products.score_cells, products.logit_gradient)
for capability in DEVICES:
    compile_products("ieee", torch.bfloat16, "bf16", "fp32", capability, *BOTH)
    compile_products("tf32", torch.float32, "fp32", "fp32", capability, *BOTH)
    compile_products("split", torch.float32, "fp32", "fp32", capability, *BOTH, products.multiply)
compile_products("ieee", torch.float64, "fp64", "fp64", 90, *BOTH)
for score_type, dtype in (("fp32", tl.float32), ("fp64", tl.float64)):
    for one_symbol in (True, False):
        for kernel in (lattice.sum_paths_kernel, lattice.posteriors_kernel):
            options = {"SCORE_DTYPE": dtype, "POSITIONS": 64, "ONE_SYMBOL": one_symbol, "BLOCK": 256}
            compile_kernel(kernel, score_type, score_type, **options)
print("compiled")
