"""Log-mel features of 16 kHz speech, whole or chunk by chunk, on any device.

The definition is that of the Emformer RNN-T pipeline: 400-point spectrum with a Hann window, hop 160, frames centred on
multiples of the hop with the audio mirrored at both ends, 80 triangular mel bands of the power spectrum, a logarithm
that is linear below e, and the training corpus's mean and deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.models.spectrum import spectra

SAMPLE_RATE_HZ = 16_000
FFT_SIZE = 400
HOP = 160
BANDS = 80
# Half of the window stands before the frame's centre.
HALF = FFT_SIZE // 2
# The pipeline's spectrum is that of 16-bit samples: full scale is 32767, and power goes with its square.
POWER_GAIN = 32767.0**2


@dataclass(frozen=True)
class Statistics:
    """Mean and inverse standard deviation of each band over the training corpus."""

    mean: Tensor
    inverse_deviation: Tensor

    @staticmethod
    def neutral() -> Statistics:
        """Statistics that change nothing."""
        return Statistics(torch.zeros(BANDS), torch.ones(BANDS))


class LogMel(torch.nn.Module):
    """Features of a whole utterance: `(samples,)` to `(1 + samples // HOP, BANDS)`, of half a window at the least."""

    def __init__(self, statistics: Statistics | None = None) -> None:
        super().__init__()
        statistics = statistics or Statistics.neutral()
        self.window: Tensor
        self._bands: Tensor
        self._scale: Tensor
        self._offset: Tensor
        self.register_buffer("window", torch.hann_window(FFT_SIZE))
        # A line's power is the sum of two squares: each of them is weighted, so that one product does both sums.
        self.register_buffer("_bands", (mel_bands() * POWER_GAIN).repeat_interleave(2, dim=0))
        self.register_buffer("_scale", statistics.inverse_deviation)
        self.register_buffer("_offset", -statistics.mean * statistics.inverse_deviation)

    def forward(self, samples: Tensor) -> Tensor:
        """The features of one whole utterance."""
        stream = LogMelStream(self)
        return torch.cat([stream.push(samples), stream.finish()])

    def of_windows(self, windows: Tensor) -> Tensor:
        """The features of windows that were already cut: `(frames, FFT_SIZE)` to `(frames, BANDS)`."""
        spectrum = spectra(windows * self.window)
        return torch.addcmul(self._offset, piecewise_log(spectrum.square_() @ self._bands), self._scale)


class LogMelStream:
    """Features of one stream: every sample is transformed once, when the window that ends with it is complete."""

    def __init__(self, features: LogMel) -> None:
        self._features = features
        self._pending = features.window.new_zeros(0)
        self._mirrored = False

    def push(self, samples: Tensor) -> Tensor:
        """The frames that these samples complete."""
        self._pending = torch.cat([self._pending, samples])
        if not self._mirrored:
            if len(self._pending) <= HALF:
                return self._pending.new_zeros(0, BANDS)
            self._pending = torch.cat([self._pending[1 : HALF + 1].flip(0), self._pending])
            self._mirrored = True
        return self._complete()

    def finish(self) -> Tensor:
        """The frames at the end, which look beyond it and see the audio mirrored."""
        if not self._mirrored:
            # Shorter than half a window: nothing to mirror, so silence takes its place.
            missing = HALF + 1 - len(self._pending)
            before = self.push(self._pending.new_zeros(missing))
            return torch.cat([before, self.finish()])
        self._pending = torch.cat([self._pending, self._pending[-HALF - 1 : -1].flip(0)])
        return self._complete()

    def _complete(self) -> Tensor:
        count = (len(self._pending) - FFT_SIZE) // HOP + 1
        if count <= 0:
            return self._pending.new_zeros(0, BANDS)
        windows = self._pending.unfold(0, FFT_SIZE, HOP)
        self._pending = self._pending[count * HOP :]
        return self._features.of_windows(windows)


def piecewise_log(power: Tensor) -> Tensor:
    """The logarithm above e and the straight line through the origin below it; both meet at e in value."""
    return torch.where(power > math.e, power.log(), power * (1 / math.e))


def mel_bands() -> Tensor:
    """The weight of every spectral line in every band: triangles between points equally spaced on the HTK mel scale.

    In single precision, as the published pipeline has them: the narrowest bands feel the rounding in the fifth digit.
    """
    lines_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1)
    top = 2595.0 * math.log10(1.0 + SAMPLE_RATE_HZ / 2 / 700.0)
    points_hz = 700.0 * (10.0 ** (torch.linspace(0, top, BANDS + 2) / 2595.0) - 1.0)
    widths_hz = points_hz.diff()
    distance_hz = points_hz - lines_hz[:, None]
    rising = -distance_hz[:, :-2] / widths_hz[:-1]
    falling = distance_hz[:, 2:] / widths_hz[1:]
    return torch.minimum(rising, falling).clamp(min=0)
