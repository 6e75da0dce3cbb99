"""Compiles every Triton kernel for a GPU of compute capability 9.0, without one, and prints `compiled`.

A script of its own, as a process that interprets kernels cannot compile them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stopwav.losses import cell_kernels as cells
from stopwav.losses import lattice_kernels as lattice

INTEGERS = ("first", "size", "T", "PLACES", "BATCH")
POINTERS = {
    "*i64": ("starts", "widths", "frames", "labels", "rows", "targets"),
    "*i32": ("encoding_rows", "prediction_rows"),
    "*fp64": ("alpha", "beta", "totals"),
}
NARROW = ("hidden", "logits", "grads")


def types_of(kernel: Any, constants: dict[str, Any], narrow: str, wide: str) -> dict[str, str]:
    """The type of each argument by its name: what is not known otherwise is a pointer to wide numbers."""
    known = {name: kind for kind, names in POINTERS.items() for name in names}
    known |= (
        dict.fromkeys(INTEGERS, "i32") | dict.fromkeys(NARROW, f"*{narrow}") | dict.fromkeys(constants, "constexpr")
    )
    return {name: known.get(name, f"*{wide}") for name in kernel.arg_names}


def compile_one(kernel: Any, narrow: str, wide: str, **constants: Any) -> None:
    """Compile a kernel down to machine code."""
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=types_of(kernel, constants, narrow, wide), constexprs=constants)
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


for narrow, wide in (("bf16", "fp32"), ("fp32", "fp32"), ("fp64", "fp64")):
    block = {"WIDE": tl.float64 if wide == "fp64" else tl.float32, "ROWS": 8, "COLUMNS": 64, "BLOCK": 256}
    sizes = {"D": 60, "DP": 64, "V": 50, "VP": 64, "BLANK": 0}
    for activation in ("tanh", "relu", "none"):
        for over_frames in (True, False):
            options = {"ACTIVATION": activation, "OVER_FRAMES": over_frames}
            compile_one(cells.add_up_rows, narrow, wide, **block, **sizes, **options)
        compile_one(cells.pack_hidden, narrow, wide, **block, **sizes, ACTIVATION=activation)
    for kernel in (cells.map_cells, cells.score_cells, cells.logit_gradient):
        compile_one(kernel, narrow, wide, **block, **sizes)
    for one_symbol in (True, False):
        for kernel in (lattice.sum_paths, lattice.posteriors):
            compile_one(kernel, narrow, wide, **block, PLACES=64, ONE_SYMBOL=one_symbol)
print("compiled")
