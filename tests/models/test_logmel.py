"""Features against a plain computation in numpy, and chunk by chunk against the whole."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stopwav.models.logmel import BANDS, FFT_SIZE, HOP, LogMel, LogMelStream, Statistics, mel_bands, piecewise_log

HALF = FFT_SIZE // 2


def noise(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, length).astype(np.float32)


def plain(samples: np.ndarray) -> np.ndarray:
    """The same features in float64, written down from the pipeline's definition."""
    samples = samples.astype(np.float64)
    if len(samples) <= HALF:
        samples = np.pad(samples, (0, HALF + 1 - len(samples)))
    padded = np.pad(samples, HALF, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE)
    starts = range(0, len(padded) - FFT_SIZE + 1, HOP)
    power = np.array([np.abs(np.fft.rfft(padded[start : start + FFT_SIZE] * window)) ** 2 for start in starts])
    mel = power @ plain_bands() * 32767.0**2
    return np.where(mel > np.e, np.log(np.maximum(mel, 1e-300)), mel / np.e)


def plain_bands() -> np.ndarray:
    edges_mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), BANDS + 2)
    edges_hz = 700 * (10 ** (edges_mel / 2595) - 1)
    lines_hz = np.arange(HALF + 1) * 16_000 / FFT_SIZE
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
    found = LogMel()(torch.from_numpy(samples)).numpy()
    assert found.shape == (1 + max(length, HALF + 1) // HOP, BANDS)
    np.testing.assert_allclose(found, plain(samples), atol=2e-3 if length < HALF else 1e-4)


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
    np.testing.assert_allclose(mel_bands().numpy(), plain_bands(), atol=2e-5)


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
