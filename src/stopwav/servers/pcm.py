"""Samples as servers take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Files of 16-bit integers are read as samples divided by this: they are sent as they are, bit by bit.
_FULL_SCALE = np.float32(32768.0)


def int16_bytes(samples: NDArray[np.float32]) -> bytes:
    """Return samples between -1 and 1 as 16-bit integers, little-endian; louder ones are clipped."""
    return (samples * _FULL_SCALE).round().clip(-32768, 32767).astype("<i2").tobytes()


def float32_bytes(samples: NDArray[np.float32]) -> bytes:
    """Return samples as 32-bit floats, little-endian."""
    return samples.astype("<f4").tobytes()
