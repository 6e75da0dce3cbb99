"""The arithmetic of a joiner's matrix products."""

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
    def sum_dtype(self) -> torch.dtype:
        """The type of all sums: float32, or float64 for inputs in float64."""
        return torch.promote_types(self.dtype, torch.float32)

    @contextmanager
    def products(self) -> Iterator[None]:
        """A context in which matrix products use this arithmetic, whatever autocast and PyTorch's settings say."""
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            if self.tf32 is None or not torch.cuda.is_available():
                yield
                return
            with tf32_products(self.tf32):
                yield


def arithmetic_of(precision: Precision | None, tensor: Tensor) -> Arithmetic:
    """The arithmetic of a precision; without one, that of autocast if it is on, or else that of the tensor."""
    if precision is None:
        kind = tensor.device.type
        return Arithmetic(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype)
    if precision not in DTYPES:
        raise StopwavError(f"precision {precision!r}; give one of {', '.join(DTYPES)}")
    return Arithmetic(DTYPES[precision], {"float32": False, "tf32": True}.get(precision))


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a matrix product to a total, which may have a wider type than the factors."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif left.is_cuda and hasattr(torch.ops.aten.addmm, "dtype_out"):
        # The product is summed in float32 either way; this keeps the result from being rounded to the inputs' type.
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    elif left.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        total.add_(torch.mm(left, right, out_dtype=total.dtype))
    else:
        total.add_(left @ right)


def tf32_allowed() -> bool:
    """Whether PyTorch may round float32 factors to TF32, by the newer name of the setting where it says so."""
    newer = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    if newer in ("tf32", "ieee"):
        return bool(newer == "tf32")
    return torch.get_float32_matmul_precision() != "highest"


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 for float32 products on a GPU in this context; afterwards restore the setting.

    PyTorch has an older and a newer name for the setting, and refuses to multiply if they disagree; setting the older
    one sets both.
    """
    matmul: Any = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)
    try:
        older, overall = matmul.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:  # only the newer name was used, so the older one has its default
        older, overall = False, "highest"
    matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = older
        if overall == "medium":  # which the older name cannot express
            torch.set_float32_matmul_precision(overall)
        if newer is not None:
            matmul.fp32_precision = newer
