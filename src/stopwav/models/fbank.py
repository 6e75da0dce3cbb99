"""Log-mel features as ESPnet computes them, which the hybrid models' published checkpoints were trained on.

512-point spectrum with a Hann window, hop 160, frames centred on multiples of the hop with the audio mirrored at both
ends, 80 bands on Slaney's mel scale, each of unit area, and a natural logarithm.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.models.logmel import Statistics
from stopwav.models.spectrum import spectra

SAMPLE_RATE_HZ = 16_000
FFT_SIZE = 512
HOP = 160
BANDS = 80
# Half of the window stands before the frame's centre.
HALF = FFT_SIZE // 2
# Silence has no logarithm; ESPnet's floor.
LEAST_POWER = 1e-10
# Slaney's scale: linear up to 1 kHz, 15 mel there, then logarithmic with 27 steps for a factor of 6.4.
HZ_PER_MEL = 200.0 / 3
KNEE_HZ, KNEE_MEL = 1000.0, 15.0
LOG_STEP = math.log(6.4) / 27


class Fbank(torch.nn.Module):
    """Features of one utterance: `(samples,)` to `(1 + samples // HOP, BANDS)`; more than half a window is needed.

    They are normalised by a corpus's statistics, or, where there are none, by the utterance's own mean.
    """

    def __init__(self, statistics: Statistics | None = None) -> None:
        super().__init__()
        self._statistics = statistics
        self._window: Tensor
        self._bands: Tensor
        self.register_buffer("_window", torch.hann_window(FFT_SIZE))
        # A line's power is the sum of two squares: each of them is weighted, so that one product does both sums.
        self.register_buffer("_bands", slaney_bands().repeat_interleave(2, dim=0))

    def forward(self, samples: Tensor) -> Tensor:
        """The features."""
        mirrored = functional.pad(samples[None], (HALF, HALF), mode="reflect")[0]
        windows = mirrored.unfold(0, FFT_SIZE, HOP) * self._window
        features = (spectra(windows).square() @ self._bands).clamp(min=LEAST_POWER).log()
        if self._statistics is None:
            return features - features.mean(dim=0)
        return (features - self._statistics.mean) * self._statistics.inverse_deviation


def slaney_bands() -> Tensor:
    """The weight of every spectral line in every band: triangles of area 1 between points equally spaced in mel."""
    lines_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1, dtype=torch.float64)
    top = KNEE_MEL + math.log(SAMPLE_RATE_HZ / 2 / KNEE_HZ) / LOG_STEP
    points = torch.linspace(0, top, BANDS + 2, dtype=torch.float64)
    points_hz = torch.where(points < KNEE_MEL, points * HZ_PER_MEL, KNEE_HZ * ((points - KNEE_MEL) * LOG_STEP).exp())
    widths_hz = points_hz.diff()
    distance_hz = points_hz - lines_hz[:, None]
    rising = -distance_hz[:, :-2] / widths_hz[:-1]
    falling = distance_hz[:, 2:] / widths_hz[1:]
    heights = 2 / (points_hz[2:] - points_hz[:-2])
    return (torch.minimum(rising, falling).clamp(min=0) * heights).float()
