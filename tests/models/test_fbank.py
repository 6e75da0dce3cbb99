"""ESPnet's features, and spectra on a PyTorch that cannot transform."""

import math
from collections.abc import Iterator

import pytest
import torch

from stopwav.models import spectrum
from stopwav.models.fbank import BANDS, FFT_SIZE, HOP, Fbank, slaney_bands
from stopwav.models.logmel import LogMel, Statistics


@pytest.fixture
def no_fft(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch as it is built without MKL: both transforms raise."""

    def missing(*arguments: object, **options: object) -> None:
        raise RuntimeError("fft: ATen not compiled with FFT support")

    monkeypatch.setattr(torch.fft, "rfft", missing)
    monkeypatch.setattr(torch, "stft", missing)
    spectrum.has_fft.cache_clear()
    yield
    spectrum.has_fft.cache_clear()


@pytest.fixture
def audio() -> torch.Tensor:
    return torch.randn(8_123, generator=torch.Generator().manual_seed(0)) / 10


@pytest.mark.parametrize("size", [2, 5, 400, 512])
def test_the_matrix_is_the_transform(size: int) -> None:
    windows = torch.randn(7, size)
    by_matrix = windows @ spectrum.dft_matrix(size)
    torch.testing.assert_close(by_matrix, spectrum.spectra(windows), rtol=1e-4, atol=1e-4)


def test_features_are_the_same_without_a_transform(audio: torch.Tensor, request: pytest.FixtureRequest) -> None:
    before = Fbank()(audio), LogMel()(audio)
    assert spectrum.has_fft()
    request.getfixturevalue("no_fft")
    assert not spectrum.has_fft()
    for features, expected in zip((Fbank(), LogMel()), before, strict=True):
        torch.testing.assert_close(features(audio), expected, rtol=1e-3, atol=1e-3)


def test_features_are_those_of_torch_stft(audio: torch.Tensor) -> None:
    window = torch.hann_window(FFT_SIZE)
    lines = torch.stft(audio, FFT_SIZE, HOP, window=window, center=True, pad_mode="reflect", return_complex=True)
    expected = (lines.abs().square().T @ slaney_bands()).clamp(min=1e-10).log()
    statistics = Statistics(expected.mean(0), 1 / expected.std(0))
    torch.testing.assert_close(Fbank()(audio), expected - expected.mean(0), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(
        Fbank(statistics)(audio), (expected - expected.mean(0)) / expected.std(0), rtol=1e-3, atol=1e-3
    )
    assert len(expected) == 1 + len(audio) // HOP


def test_bands_have_unit_area_and_stand_on_slaneys_scale() -> None:
    bands = slaney_bands().double()
    spacing_hz = 8000 / 256
    centres_hz = bands.argmax(0) * spacing_hz
    # Equally spaced up to 1 kHz, by a constant factor above it.
    top = 15 + 27 * math.log(8) / math.log(6.4)
    step = top / (BANDS + 1)
    assert float(centres_hz[9]) == pytest.approx(10 * step * 200 / 3, abs=spacing_hz)
    assert float(centres_hz[-1]) == pytest.approx(8000 * 6.4 ** (-step / 27), abs=spacing_hz)
    wide = bands[:, 50:]  # narrow triangles have few lines
    assert (wide.sum(0) * spacing_hz).tolist() == pytest.approx([1.0] * 30, rel=0.02)


def test_bands_are_those_of_another_implementation() -> None:
    audio_utils = pytest.importorskip("transformers.audio_utils")
    theirs = audio_utils.mel_filter_bank(
        257, BANDS, min_frequency=0.0, max_frequency=8000.0, sampling_rate=16_000, norm="slaney", mel_scale="slaney"
    )
    torch.testing.assert_close(slaney_bands(), torch.from_numpy(theirs).float(), rtol=1e-4, atol=1e-7)
