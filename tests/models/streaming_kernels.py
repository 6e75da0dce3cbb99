"""Compile the kernels of batched streams for a GPU of compute capability 9.0, which need not be there, or run them.

A script of its own, since a process that interprets kernels cannot compile them: `compile` or `interpret`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

SYMBOLS = {"BLOCK": 4096, "COUNT": 10, "COUNTED": 16}
ATTENTION = {
    "HEADS": 8,
    "HEAD": 64,
    "LEFT": 30,
    "SEGMENT": 4,
    "AHEAD": 1,
    "PLACES": 35,
    "PAST_TILE": 64,
    "NEW_TILE": 16,
}


def compile_kernels() -> None:
    """Compile the kernels to machine code, for both types of values."""
    from stopwav.models.best_symbols_kernel import best_symbols_kernel
    from stopwav.models.ring_attention_kernel import ring_attention_kernel

    for values in ("*fp32", "*bf16"):
        types = {"logits": values, "blank": "*fp32", "best": "*fp32", "symbols": "*i64", "size": "i32"}
        compile_kernel(best_symbols_kernel, types, SYMBOLS)
        types = dict.fromkeys(("projected", "cache", "attended"), values) | {"scale": "fp32"}
        compile_kernel(ring_attention_kernel, types | dict.fromkeys(("slots", "before", "new"), "*i64"), ATTENTION)


def compile_kernel(kernel: Any, types: dict[str, str], constants: dict[str, int]) -> None:
    """Compile one kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    triton.compile(ASTSource(fn=kernel, signature=types, constexprs=constants), target=GPUTarget("cuda", 90, 32))


def interpret_kernels() -> None:
    """Compare the kernels with PyTorch's functions."""
    import torch

    from stopwav.models.best_symbols import best_symbols_by_sorting
    from stopwav.models.best_symbols_kernel import best_symbols_by_kernel
    from stopwav.models.ring_attention import Ring, kernel_agrees

    for ring in (Ring(30, 4, 1), Ring(30, 2, 0), Ring(8, 1, 2)):
        assert kernel_agrees(torch.device("cpu"), torch.float32, ring)
    for size, count in ((4097, 10), (300, 1), (13, 4)):
        logits = 3 * torch.randn(5, size, generator=torch.Generator().manual_seed(size))
        ours, theirs = best_symbols_by_kernel(logits, count), best_symbols_by_sorting(logits, count)
        assert all(torch.allclose(own, their, atol=1e-5) for own, their in zip(ours, theirs, strict=True))


if sys.argv[1] == "compile":
    compile_kernels()
else:
    os.environ["TRITON_INTERPRET"] = "1"
    interpret_kernels()
print("done")
