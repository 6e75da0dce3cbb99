"""Log-mel features of 16 kHz speech: the Emformer RNN-T pipeline's, whole or as a stream, and ESPnet's.

Both have a Hann window, a hop of 160 samples, frames centred on multiples of the hop with the audio mirrored at both
ends, and 80 triangular mel bands of the power spectrum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

SAMPLE_RATE_HZ = 16_000
HOP = 160
BANDS = 80
# Half of a window lies before the centre of its frame.
LOGMEL_FFT_SIZE = 400
LOGMEL_HALF_WINDOW = LOGMEL_FFT_SIZE // 2
FBANK_FFT_SIZE = 512
FBANK_HALF_WINDOW = FBANK_FFT_SIZE // 2
# The pipeline's spectrum is that of 16-bit samples: full scale is 32767, and power goes with its square.
POWER_GAIN = 32767.0**2
# Silence has no logarithm; ESPnet's floor.
MIN_POWER = 1e-10
# Slaney's scale: linear up to 1 kHz, 15 mel there, then logarithmic with 27 steps for a factor of 6.4.
HZ_PER_MEL = 200.0 / 3
KNEE_HZ, KNEE_MEL = 1000.0, 15.0
LOG_STEP = math.log(6.4) / 27


@dataclass(frozen=True)
class Statistics:
    """Mean and inverse standard deviation of each band over the training corpus."""

    mean: Tensor
    inverse_deviation: Tensor


class LogMel(torch.nn.Module):
    """The Emformer pipeline's features of an utterance: `(samples,)` to `(1 + samples // HOP, BANDS)`.

    Audio shorter than half a window is padded with silence.
    """

    def __init__(self, statistics: Statistics | None = None) -> None:
        super().__init__()
        statistics = statistics or Statistics(torch.zeros(BANDS), torch.ones(BANDS))
        self.window: Tensor
        self._bands: Tensor
        self._scale: Tensor
        self._offset: Tensor
        self.register_buffer("window", torch.hann_window(LOGMEL_FFT_SIZE))
        self.register_buffer("_bands", _interleaved(htk_bands() * POWER_GAIN))
        self.register_buffer("_scale", statistics.inverse_deviation)
        self.register_buffer("_offset", -statistics.mean * statistics.inverse_deviation)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the features of a whole utterance."""
        stream = LogMelStream(self)
        return torch.cat([stream.push(samples), stream.finish()])

    def of_windows(self, windows: Tensor) -> Tensor:
        """Return the features of windows of audio: `(frames, LOGMEL_FFT_SIZE)` to `(frames, BANDS)`."""
        spectrum = spectra(windows * self.window)
        return torch.addcmul(self._offset, piecewise_log(spectrum.square_() @ self._bands), self._scale)


class LogMelStream:
    """The features of one stream: every frame is computed once, as soon as its window is complete."""

    def __init__(self, features: LogMel) -> None:
        self._features = features
        self._pending = features.window.new_zeros(0)
        self._mirrored = False

    def push(self, samples: Tensor) -> Tensor:
        """Return the frames that these samples complete."""
        self._pending = torch.cat([self._pending, samples])
        if not self._mirrored:
            if len(self._pending) <= LOGMEL_HALF_WINDOW:
                return self._pending.new_zeros(0, BANDS)
            self._pending = torch.cat([self._pending[1 : LOGMEL_HALF_WINDOW + 1].flip(0), self._pending])
            self._mirrored = True
        return self._complete_frames()

    def finish(self) -> Tensor:
        """Return the last frames, whose windows reach beyond the end into the mirrored audio."""
        if not self._mirrored:
            # Shorter than half a window: there is too little to mirror, so silence is appended.
            missing = LOGMEL_HALF_WINDOW + 1 - len(self._pending)
            before = self.push(self._pending.new_zeros(missing))
            return torch.cat([before, self.finish()])
        self._pending = torch.cat([self._pending, self._pending[-LOGMEL_HALF_WINDOW - 1 : -1].flip(0)])
        return self._complete_frames()

    def _complete_frames(self) -> Tensor:
        count = (len(self._pending) - LOGMEL_FFT_SIZE) // HOP + 1
        if count <= 0:
            return self._pending.new_zeros(0, BANDS)
        windows = self._pending.unfold(0, LOGMEL_FFT_SIZE, HOP)
        self._pending = self._pending[count * HOP :]
        return self._features.of_windows(windows)


class Fbank(torch.nn.Module):
    """ESPnet's features of an utterance of more than half a window, as the published hybrid checkpoints expect them.

    `(samples,)` to `(1 + samples // HOP, BANDS)`, normalised by a corpus's statistics or by the utterance's own mean.
    """

    def __init__(self, statistics: Statistics | None = None) -> None:
        super().__init__()
        self._statistics = statistics
        self._window: Tensor
        self._bands: Tensor
        self.register_buffer("_window", torch.hann_window(FBANK_FFT_SIZE))
        self.register_buffer("_bands", _interleaved(slaney_bands()))

    def forward(self, samples: Tensor) -> Tensor:
        """Return the features."""
        mirrored = functional.pad(samples[None], (FBANK_HALF_WINDOW, FBANK_HALF_WINDOW), mode="reflect")[0]
        windows = mirrored.unfold(0, FBANK_FFT_SIZE, HOP) * self._window
        features = (spectra(windows).square() @ self._bands).clamp(min=MIN_POWER).log()
        if self._statistics is None:
            return features - features.mean(dim=0)
        return (features - self._statistics.mean) * self._statistics.inverse_deviation


def piecewise_log(power: Tensor) -> Tensor:
    """Return the logarithm above e, and below it the straight line through the origin that meets it there."""
    return torch.where(power > math.e, power.log(), power * (1 / math.e))


def htk_bands() -> Tensor:
    """Return the weight of every spectral line in every band: triangles equally spaced on the HTK mel scale.

    In single precision, as the published pipeline has them: rounding shows in the fifth digit of the narrowest bands.
    """
    lines_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, LOGMEL_FFT_SIZE // 2 + 1)
    top = 2595.0 * math.log10(1.0 + SAMPLE_RATE_HZ / 2 / 700.0)
    return _triangles(lines_hz, 700.0 * (10.0 ** (torch.linspace(0, top, BANDS + 2) / 2595.0) - 1.0))


def slaney_bands() -> Tensor:
    """Return the weight of every spectral line in every band: triangles of area 1, equally spaced on Slaney's scale."""
    lines_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, FBANK_FFT_SIZE // 2 + 1, dtype=torch.float64)
    top = KNEE_MEL + math.log(SAMPLE_RATE_HZ / 2 / KNEE_HZ) / LOG_STEP
    points = torch.linspace(0, top, BANDS + 2, dtype=torch.float64)
    points_hz = torch.where(points < KNEE_MEL, points * HZ_PER_MEL, KNEE_HZ * ((points - KNEE_MEL) * LOG_STEP).exp())
    heights = 2 / (points_hz[2:] - points_hz[:-2])
    return (_triangles(lines_hz, points_hz) * heights).float()


def _triangles(lines_hz: Tensor, points_hz: Tensor) -> Tensor:
    widths_hz = points_hz.diff()
    distance_hz = points_hz - lines_hz[:, None]
    rising = -distance_hz[:, :-2] / widths_hz[:-1]
    falling = distance_hz[:, 2:] / widths_hz[1:]
    return torch.minimum(rising, falling).clamp(min=0)


def _interleaved(bands: Tensor) -> Tensor:
    """Repeat each weight for the real and the imaginary part, so that one product sums their squares too."""
    return bands.repeat_interleave(2, dim=0)


def spectra(windows: Tensor) -> Tensor:
    """Return the spectrum, real and imaginary parts interleaved: `(frames, size)` to `(frames, 2 · (size // 2 + 1))`.

    PyTorch builds without MKL or a replacement raise in `torch.fft` and `torch.stft`: there it is a matrix product.
    """
    if has_fft(windows.device.type):
        return torch.view_as_real(torch.fft.rfft(windows)).flatten(1)
    return windows @ dft_matrix(windows.shape[1]).to(windows)


@lru_cache
def has_fft(device: str = "cpu") -> bool:
    """Whether this build of PyTorch has an FFT for a type of device; there is no flag for it, so it is tried."""
    try:
        torch.fft.rfft(torch.ones(2, device=device))
    except RuntimeError:
        return False
    return True


@lru_cache
def dft_matrix(size: int) -> Tensor:
    """Return the matrix that turns a window into its spectrum, in the layout of `spectra`."""
    # In whole numbers modulo the size, and then in double precision: an angle of many turns would lose digits.
    turns = torch.outer(torch.arange(size), torch.arange(size // 2 + 1)) % size
    angles = turns.double() * (2 * math.pi / size)
    return torch.stack([angles.cos(), -angles.sin()], dim=-1).flatten(1).float()
