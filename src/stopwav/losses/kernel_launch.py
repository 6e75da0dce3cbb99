"""The launch of Triton kernels: a kernel that is compiled is found by the types of its arguments alone."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

# Before version 3.3, Triton launches a compiled kernel without its constants.
CAN_RELAUNCH = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)

_compiled: dict[tuple[object, ...], Any] = {}


class Launcher:
    """A kernel that is launched again and again on tensors of the same types.

    Finding the compiled variant takes Triton longer than the launch itself, so it is found once for each kind of
    arguments. `options` are the kernel's last parameters, in their order; integers among the others must not be
    specialised on.
    """

    def __init__(self, kernel: Any, options: dict[str, object], warps: int = 4, stages: int = 1) -> None:
        self._kernel, self._options = kernel, options
        self._compilation = {"num_warps": warps, "num_stages": stages}
        self._variant: Any = None

    def __call__(self, grid: tuple[int, int], *values: object) -> None:
        """Launch the kernel on the current stream."""
        if self._variant is None:
            # An interpreted kernel is not compiled.
            key = _key(values) if CAN_RELAUNCH and torch.cuda.is_available() else None
            key = key and (id(self._kernel), *self._compilation.values(), *self._options.values(), *key)
            self._variant = _compiled.get(key) if key else None
            if self._variant is None:
                variant = self._kernel[grid](*values, **self._options, **self._compilation)
                if key:
                    self._variant = _compiled[key] = variant
                return
        self._variant[(*grid, 1)](*values, *self._options.values())


def _key(values: tuple[object, ...]) -> tuple[object, ...]:
    """What the compiled code depends on: device, types, whether pointers are aligned, and how wide integers are."""
    return (
        torch.cuda.current_device(),
        *(
            (value.dtype, value.data_ptr() % 16 == 0) if isinstance(value, Tensor) else value < 2**31  # type: ignore[operator]
            for value in values
        ),
    )


def next_power_of_2(value: int) -> int:
    """Return the smallest power of two that is not less; Triton's own takes as long as a launch."""
    return 1 << max(0, value - 1).bit_length()


def blocks_of(size: int, block: int) -> int:
    """Return how many blocks cover a size."""
    return -(-size // block)
