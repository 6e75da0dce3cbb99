"""Samples as servers take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Full scale of 16-bit integers.
_FULL_SCALE = 32767.0


def int16_bytes(samples: NDArray[np.float32]) -> bytes:
    """Return samples between -1 and 1 as 16-bit integers, little-endian; louder ones are clipped."""
    return (np.clip(samples, -1.0, 1.0) * _FULL_SCALE).round().astype("<i2").tobytes()


def float32_bytes(samples: NDArray[np.float32]) -> bytes:
    """Return samples as 32-bit floats, little-endian."""
    return samples.astype("<f4").tobytes()
