"""Features against a plain computation in numpy and other implementations, and chunk by chunk against the whole."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stopwav.models import features as features_module
from stopwav.models.features import (
    BANDS,
    FBANK_FFT_SIZE,
    HOP,
    LOGMEL_FFT_SIZE,
    Fbank,
    LogMel,
    LogMelStream,
    Statistics,
    htk_bands,
    piecewise_log,
    slaney_bands,
)

HALF = LOGMEL_FFT_SIZE // 2


def noise(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, length).astype(np.float32)


def plain(samples: np.ndarray) -> np.ndarray:
    """The same features in float64, written down from the pipeline's definition."""
    samples = samples.astype(np.float64)
    if len(samples) <= HALF:
        samples = np.pad(samples, (0, HALF + 1 - len(samples)))
    padded = np.pad(samples, HALF, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(LOGMEL_FFT_SIZE) / LOGMEL_FFT_SIZE)
    starts = range(0, len(padded) - LOGMEL_FFT_SIZE + 1, HOP)
    power = np.array([np.abs(np.fft.rfft(padded[start : start + LOGMEL_FFT_SIZE] * window)) ** 2 for start in starts])
    mel = power @ plain_bands() * 32767.0**2
    return np.where(mel > np.e, np.log(np.maximum(mel, 1e-300)), mel / np.e)


def plain_bands() -> np.ndarray:
    edges_mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), BANDS + 2)
    edges_hz = 700 * (10 ** (edges_mel / 2595) - 1)
    lines_hz = np.arange(HALF + 1) * 16_000 / LOGMEL_FFT_SIZE
    return np.array(
        [np.interp(lines_hz, edges_hz[band : band + 3], [0, 1, 0], left=0, right=0) for band in range(BANDS)]
    ).T


def streamed(features: LogMel, samples: np.ndarray, cuts: list[int]) -> torch.Tensor:
    stream = LogMelStream(features)
    parts = np.split(samples, sorted(cut for cut in cuts if cut <= len(samples)))
    return torch.cat([*(stream.push(torch.from_numpy(part)) for part in parts), stream.finish()])


@pytest.mark.parametrize("length", [1, 199, 200, 201, 399, 400, 560, 16_000])
def test_features_are_those_of_a_plain_computation(length: int) -> None:
    samples = noise(length)
    actual = LogMel()(torch.from_numpy(samples)).numpy()
    assert actual.shape == (1 + max(length, HALF + 1) // HOP, BANDS)
    np.testing.assert_allclose(actual, plain(samples), atol=2e-3 if length < HALF else 1e-4)


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 3000), cuts=st.lists(st.integers(0, 3000), max_size=12), seed=st.integers(0, 99))
@example(length=150, cuts=[1, 2, 3], seed=0)
@example(length=HALF + 1, cuts=[HALF], seed=0)
@example(length=900, cuts=list(range(900)), seed=0)
def test_chunk_by_chunk_equals_the_whole(length: int, cuts: list[int], seed: int) -> None:
    samples = noise(length, seed)
    features = LogMel()
    whole = features(torch.from_numpy(samples))
    torch.testing.assert_close(streamed(features, samples, cuts), whole, atol=1e-5, rtol=1e-5)


def test_every_frame_is_transformed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    features = LogMel()
    counted: list[int] = []
    transform = features.of_windows

    def counting(windows: torch.Tensor) -> torch.Tensor:
        counted.append(len(windows))
        return transform(windows)

    monkeypatch.setattr(features, "of_windows", counting)
    samples = noise(16_000)
    frames = streamed(features, samples, list(range(0, 16_000, 2560)))
    assert sum(counted) == len(frames) == 101


def test_a_push_of_one_hop_gives_one_frame_as_soon_as_its_window_is_full() -> None:
    stream = LogMelStream(LogMel())
    samples = torch.from_numpy(noise(1600))
    counts = [len(stream.push(part)) for part in samples.split(HOP)]
    # Frame n is centred at n hops and looks half a window, 1.25 hops, ahead.
    assert counts == [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("hz", [200, 440, 1000, 3000, 6500])
def test_a_pure_tone_lands_in_the_band_that_is_centred_nearest_to_it(hz: int) -> None:
    tone = 0.5 * np.sin(2 * np.pi * hz * np.arange(8000) / 16_000).astype(np.float32)
    loudest = int(LogMel()(torch.from_numpy(tone))[25].argmax())
    centres_hz = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), BANDS + 2)[1:-1] / 2595) - 1)
    assert abs(loudest - int(np.abs(centres_hz - hz).argmin())) <= 1


def test_the_bands_are_triangles_on_the_htk_scale() -> None:
    # The published bands were computed in single precision.
    np.testing.assert_allclose(htk_bands().numpy(), plain_bands(), atol=2e-5)


def test_the_logarithm_is_a_line_below_e() -> None:
    values = piecewise_log(torch.tensor([0.0, 1.0, torch.e, torch.e**2, 1e6]))
    assert values.tolist() == pytest.approx([0.0, 1 / np.e, 1.0, 2.0, np.log(1e6)], rel=1e-6)


def test_statistics_centre_and_scale_every_band() -> None:
    samples = torch.from_numpy(noise(16_000))
    plain_features = LogMel()(samples)
    statistics = Statistics(plain_features.mean(0), 1 / plain_features.std(0))
    normal = LogMel(statistics)(samples)
    assert normal.mean(0).abs().max() < 1e-4
    assert (normal.std(0) - 1).abs().max() < 1e-4


@pytest.fixture
def no_fft(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch as it is built without MKL: both transforms raise."""

    def missing(*arguments: object, **options: object) -> None:
        raise RuntimeError("fft: ATen not compiled with FFT support")

    monkeypatch.setattr(torch.fft, "rfft", missing)
    monkeypatch.setattr(torch, "stft", missing)
    features_module.has_fft.cache_clear()
    yield
    features_module.has_fft.cache_clear()


@pytest.fixture
def audio() -> torch.Tensor:
    return torch.randn(8_123, generator=torch.Generator().manual_seed(0)) / 10


@pytest.mark.parametrize("size", [2, 5, 400, 512])
def test_the_matrix_is_the_transform(size: int) -> None:
    windows = torch.randn(7, size)
    by_matrix = windows @ features_module.dft_matrix(size)
    torch.testing.assert_close(by_matrix, features_module.spectra(windows), rtol=1e-4, atol=1e-4)


def test_features_are_the_same_without_a_transform(audio: torch.Tensor, request: pytest.FixtureRequest) -> None:
    before = Fbank()(audio), LogMel()(audio)
    assert features_module.has_fft()
    request.getfixturevalue("no_fft")
    assert not features_module.has_fft()
    for features, expected in zip((Fbank(), LogMel()), before, strict=True):
        torch.testing.assert_close(features(audio), expected, rtol=1e-3, atol=1e-3)


def test_features_are_those_of_torch_stft(audio: torch.Tensor) -> None:
    window = torch.hann_window(FBANK_FFT_SIZE)
    lines = torch.stft(audio, FBANK_FFT_SIZE, HOP, window=window, center=True, pad_mode="reflect", return_complex=True)
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
