"""Spectra of windows on any build of PyTorch: by its FFT, or by a matrix where the build has none.

PyTorch's CPU transform is MKL's, or a small library's where that was compiled in; builds for boards without either
raise in `torch.fft` and `torch.stft` alike.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


def spectra(windows: Tensor) -> Tensor:
    """Real and imaginary part of every line side by side: `(frames, size)` to `(frames, 2 · (size // 2 + 1))`."""
    if has_fft(windows.device.type):
        return torch.view_as_real(torch.fft.rfft(windows)).flatten(1)
    return windows @ dft_matrix(windows.shape[1]).to(windows)


@lru_cache
def has_fft(device: str = "cpu") -> bool:
    """Whether this build of PyTorch can transform on a kind of device; there is no flag for it, so it is tried."""
    try:
        torch.fft.rfft(torch.ones(2, device=device))
    except RuntimeError:
        return False
    return True


@lru_cache
def dft_matrix(size: int) -> Tensor:
    """The matrix that turns a window into its spectrum, as `spectra` lays it out."""
    # In whole numbers modulo the size, and then in double precision: an angle of many turns would lose digits.
    turns = torch.outer(torch.arange(size), torch.arange(size // 2 + 1)) % size
    angles = turns.double() * (2 * math.pi / size)
    return torch.stack([angles.cos(), -angles.sin()], dim=-1).flatten(1).float()
