"""Compile every Triton kernel for a GPU of compute capability 9.0, which need not be there, and print `compiled`.

A script of its own, since a process that interprets kernels cannot compile them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stopwav.losses import cell_kernels as cells
from stopwav.losses import lattice_kernels as lattice

INTEGERS = ("first", "size", "T", "POSITIONS", "BATCH")
POINTERS = {
    "*i64": ("starts", "widths", "frames", "labels", "rows", "targets"),
    "*i32": ("encoding_rows", "prediction_rows"),
    "*fp64": ("alpha", "beta", "totals"),
}
INPUTS = ("hidden", "logits", "grads")


def argument_types(kernel: Any, constants: dict[str, Any], input_type: str, sum_type: str) -> dict[str, str]:
    """The type of each argument by its name; by default a pointer to numbers of the type of the sums."""
    types = {name: kind for kind, names in POINTERS.items() for name in names}
    types |= dict.fromkeys(INTEGERS, "i32") | dict.fromkeys(constants, "constexpr")
    types |= dict.fromkeys(INPUTS, f"*{input_type}")
    return {name: types.get(name, f"*{sum_type}") for name in kernel.arg_names}


def compile_kernel(kernel: Any, input_type: str, sum_type: str, **constants: Any) -> None:
    """Compile a kernel to machine code."""
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = ASTSource(
        fn=kernel, signature=argument_types(kernel, constants, input_type, sum_type), constexprs=constants
    )
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


SIZES = {"D": 60, "DP": 64, "V": 50, "VP": 64, "BLANK": 0, "ROWS": 8, "COLUMNS": 64, "BLOCK": 256}
# Every kernel in every type, and in every activation once: each compilation takes a second.
compile_kernel(cells.map_cells, "bf16", "fp32", **SIZES)
for input_type, sum_type, activation in (("bf16", "fp32", "tanh"), ("fp32", "fp32", "none"), ("fp64", "fp64", "relu")):
    options = {**SIZES, "SUM_DTYPE": tl.float64 if sum_type == "fp64" else tl.float32, "ACTIVATION": activation}
    for over_frames in (True, False):
        compile_kernel(cells.add_up_rows, input_type, sum_type, **options, OVER_FRAMES=over_frames)
    for kernel in (cells.pack_hidden, cells.score_cells, cells.logit_gradient):
        compile_kernel(kernel, input_type, sum_type, **options)
for score_type, dtype in (("fp32", tl.float32), ("fp64", tl.float64)):
    for one_symbol in (True, False):
        for kernel in (lattice.sum_paths_kernel, lattice.posteriors_kernel):
            options = {"SCORE_DTYPE": dtype, "POSITIONS": 64, "ONE_SYMBOL": one_symbol, "BLOCK": 256}
            compile_kernel(kernel, score_type, score_type, **options)
print("compiled")
