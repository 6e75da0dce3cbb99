"""In which arithmetic the matrix products of a joiner are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from stopwav.errors import StopwavError

Precision = Literal["float64", "float32", "tf32", "bfloat16", "float16"]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Arithmetic:
    """The type of the products' inputs, and whether float32 may be rounded to TF32; None leaves that to PyTorch."""

    dtype: torch.dtype
    tf32: bool | None = None

    @property
    def wide(self) -> torch.dtype:
        """The type in which everything is added up: float32, or float64 where the inputs are."""
        return torch.promote_types(self.dtype, torch.float32)

    @contextmanager
    def products(self) -> Iterator[None]:
        """Matrix products are in this arithmetic here, whatever autocast and PyTorch's settings say around it."""
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            if self.tf32 is None or not torch.cuda.is_available():
                yield
                return
            with tf32_products(self.tf32):
                yield


def arithmetic_of(precision: Precision | None, tensor: Tensor) -> Arithmetic:
    """The arithmetic asked for; that of autocast where none is asked for, or else that of the tensor."""
    if precision is None:
        kind = tensor.device.type
        return Arithmetic(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype)
    if precision not in DTYPES:
        raise StopwavError(f"precision {precision!r}; give one of {', '.join(DTYPES)}")
    return Arithmetic(DTYPES[precision], {"float32": False, "tf32": True}.get(precision))


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a matrix product to a total that may be wider than its factors."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif left.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        # The products are added up in float32 either way; this keeps the sum from being rounded on its way out.
        total.add_(torch.mm(left, right, out_dtype=total.dtype))
    else:
        total.add_(left @ right)


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Products of float32 on a GPU are rounded to TF32 here, or are not; afterwards it is as it was.

    PyTorch keeps this under an older and a newer name, and refuses to multiply where the two disagree: the older one
    sets both.
    """
    matmul: Any = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)
    try:
        older, overall = matmul.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:  # the newer name alone was used, so the older one has its default
        older, overall = False, "highest"
    matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = older
        if overall == "medium":  # which the older name cannot say
            torch.set_float32_matmul_precision(overall)
        if newer is not None:
            matmul.fp32_precision = newer
