"""Audio files of every kind and in every state of repair."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.speech.audio import Audio, load

RATE_HZ = 16_000


def tone(seconds: float, rate_hz: int = RATE_HZ, hz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)


def written(path: Path, samples: np.ndarray, rate_hz: int = RATE_HZ, **options: str) -> Path:
    soundfile.write(path, samples, rate_hz, **options)
    return path


def refusal(path: Path, *arguments: float) -> str:
    with pytest.raises(StopwavError) as caught:
        load(path, RATE_HZ, *arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_tone_stays_a_tone(tmp_path: Path, suffix: str, rate_hz: int, channels: int) -> None:
    sound = tone(1.0, rate_hz)
    path = written(tmp_path / f"x.{suffix}", np.stack([sound] * channels, axis=1), rate_hz)
    audio = load(path, RATE_HZ)
    assert audio.samples.dtype == np.float32
    assert audio.samples.ndim == 1
    assert audio.duration_s == pytest.approx(1.0, abs=0.01)
    spectrum = np.abs(np.fft.rfft(audio.samples))
    assert np.argmax(spectrum) / audio.duration_s == pytest.approx(440.0, abs=2.0)
    assert np.sqrt(np.mean(audio.samples**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
def test_every_sample_format_has_the_same_scale(tmp_path: Path, subtype: str) -> None:
    audio = load(written(tmp_path / "x.wav", tone(0.1), subtype=subtype), RATE_HZ)
    np.testing.assert_allclose(audio.samples, tone(0.1), atol=0.02)


def test_16_bit_samples_come_back_exactly(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).integers(-32768, 32768, 5000).astype(np.int16)
    assert np.array_equal(load(written(tmp_path / "x.flac", samples), RATE_HZ).pcm16(), samples)


def test_channels_are_averaged(tmp_path: Path) -> None:
    sound = tone(0.1)
    audio = load(written(tmp_path / "x.wav", np.stack([sound, -sound, 0.3 + 0 * sound], axis=1)), RATE_HZ)
    np.testing.assert_allclose(audio.samples, 0.1, atol=1e-3)


@given(start=st.integers(0, 15_000), count=st.integers(1, 1000))
@settings(max_examples=30, deadline=None)
def test_a_segment_is_that_slice(start: int, count: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "ramp.flac"
    samples = np.arange(16_000, dtype=np.int16)
    if not path.exists():
        written(path, samples)
    part = load(path, RATE_HZ, start / RATE_HZ, (start + count) / RATE_HZ)
    assert np.array_equal(part.pcm16(), samples[start : start + count])


def test_only_the_segment_is_read(tmp_path: Path) -> None:
    """A NaN outside of the segment is never seen."""
    samples = tone(2.0)
    samples[30_000] = np.nan
    path = written(tmp_path / "x.wav", samples, subtype="FLOAT")
    assert load(path, RATE_HZ, 0.5, 1.5).duration_s == pytest.approx(1.0)
    assert "1.8750 s" in refusal(path, 1.5)


@pytest.mark.parametrize(
    ("start_s", "end_s"),
    [(1.0, None), (5.0, 6.0), (-0.1, 0.5), (0.5, 0.5), (0.6, 0.5), (0.0, 1.5), (float("nan"), 1.0)],
)
def test_a_segment_outside_of_the_file_is_refused(tmp_path: Path, start_s: float, end_s: float | None) -> None:
    path = written(tmp_path / "x.wav", tone(1.0))
    with pytest.raises(StopwavError, match=r"lasts 1\.000 s and has no part"):
        load(path, RATE_HZ, start_s, end_s)


def test_a_rounded_end_is_not_a_mistake(tmp_path: Path) -> None:
    assert load(written(tmp_path / "x.wav", tone(1.0)), RATE_HZ, 0.0, 1.01).duration_s == 1.0


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("this is no audio\n" * 100)
    (tmp_path / "noise.flac").write_bytes(np.random.default_rng(0).bytes(5000))
    assert "does not exist" in refusal(tmp_path / "missing.wav")
    assert "is a folder" in refusal(tmp_path)
    assert "is empty (0 bytes)" in refusal(tmp_path / "empty.wav")
    assert "not readable as audio" in refusal(tmp_path / "text.wav")
    assert "not readable as audio" in refusal(tmp_path / "noise.flac")
    assert "has no samples" in refusal(written(tmp_path / "header.wav", np.zeros(0)))
    with pytest.raises(StopwavError, match="does not exist"):
        load("x" * 5000 + ".wav", RATE_HZ)
    with pytest.raises(StopwavError, match="sample rate 0 Hz"):
        load(written(tmp_path / "x.wav", tone(0.1)), 0)


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3"])
def test_a_file_cut_short_says_how_short(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"x.{suffix}", tone(3.0))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 6 // 10])
    message = refusal(path)
    assert "cut short: only " in message
    assert "of 48,000 frames" in message
    readable = int(message.partition("only ")[2].split()[0].replace(",", ""))
    assert 20_000 < readable < 40_000


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 0.95])
def test_any_cut_is_an_error_or_audio(tmp_path: Path, suffix: str, share: float) -> None:
    path = written(tmp_path / f"x.{suffix}", tone(3.0))
    content = path.read_bytes()
    path.write_bytes(content[: max(1, int(len(content) * share))])
    try:
        audio = load(path, RATE_HZ)
    except StopwavError:
        return
    assert suffix in ("ogg", "mp3"), "a WAV or FLAC that is cut short is noticed"
    assert 0 < audio.duration_s <= 3.0


@given(place=st.floats(0, 1, exclude_max=True), junk=st.binary(min_size=1, max_size=64))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_damage_anywhere_is_an_error_or_audio(
    suffix: str, place: float, junk: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"damaged.{suffix}"
    content = bytearray(written(path, tone(0.2)).read_bytes())
    start = int(place * len(content))
    content[start : start + len(junk)] = junk
    path.write_bytes(content)
    try:
        samples = load(path, RATE_HZ).samples
    except StopwavError:
        return
    assert len(samples) > 0
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_located(tmp_path: Path, bad: float) -> None:
    samples = np.stack([tone(1.0), tone(1.0)], axis=1)
    samples[4000, 1] = samples[9000, 0] = bad
    message = refusal(written(tmp_path / "x.wav", samples, subtype="FLOAT"))
    assert "not finite, first at 0.2500 s" in message


def test_float_files_in_another_unit_are_refused_and_overshoot_is_clipped(tmp_path: Path) -> None:
    assert "as large as 16384" in refusal(written(tmp_path / "int.wav", tone(0.1) * 32768, subtype="FLOAT"))
    audio = load(written(tmp_path / "hot.wav", tone(0.1) * 2.4, subtype="FLOAT"), RATE_HZ)
    assert np.abs(audio.samples).max() == 1.0


def test_one_sample_survives_any_rate_that_leaves_it(tmp_path: Path) -> None:
    for rate_hz in (8_000, 16_000):
        assert len(load(written(tmp_path / "x.wav", np.array([0.5]), rate_hz), RATE_HZ).samples) > 0
    assert "no samples left at 16000 Hz" in refusal(written(tmp_path / "x.wav", np.array([0.5]), 96_000))


def test_full_scale_does_not_wrap_around() -> None:
    assert Audio(np.array([1.0, -1.0, 1.5, -1.5], np.float32), RATE_HZ).pcm16().tolist() == [
        32767,
        -32768,
        32767,
        -32768,
    ]


def test_resampling_to_the_same_rate_is_the_audio_itself() -> None:
    audio = Audio(tone(0.1).astype(np.float32), RATE_HZ)
    assert audio.resampled(RATE_HZ) is audio
    assert len(audio.resampled(48_000).samples) == pytest.approx(3 * len(audio.samples), abs=1)


def test_a_wav_header_with_odd_chunks_is_followed(tmp_path: Path) -> None:
    data = (tone(0.1) * 32767).astype("<i2").tobytes()
    body = b"WAVE" + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    body += (
        b"fmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
        + b"data"
        + struct.pack("<I", len(data))
    )
    path = tmp_path / "x.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body) + len(data)) + body + data)
    assert len(load(path, RATE_HZ).samples) == 1600
    path.write_bytes(path.read_bytes()[:-200])
    assert "only 1,500 of 1,600 frames" in refusal(path)


@pytest.mark.skipif(shutil.which("sox") is None, reason="needs sox")
def test_files_written_through_a_pipe_do_not_know_their_length(tmp_path: Path) -> None:
    for suffix in ("wav", "flac"):
        command = ["sox", "-n", "-r", "16000", "-b", "16", "-t", suffix, "-", "synth", "1", "sine", "440"]
        (tmp_path / f"x.{suffix}").write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    assert load(tmp_path / "x.wav", RATE_HZ).duration_s == pytest.approx(1.0)
    assert "does not say how long it is" in refusal(tmp_path / "x.flac")  # libsndfile loses the end of these


def test_a_name_that_is_no_utf8_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "b\udcff.wav"
    soundfile.write(tmp_path / "good.wav", np.zeros(160, np.float32), 16_000)
    (tmp_path / "good.wav").rename(path)
    assert len(load(path, 16_000).samples) == 160
    path.write_bytes(b"no audio")
    with pytest.raises(StopwavError, match="is not readable as audio"):
        load(path, 16_000)


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 44_100, 8_000])
def test_reading_in_blocks_gives_the_samples_of_the_whole(tmp_path: Path, rate_hz: int) -> None:
    noise = np.random.default_rng(1).uniform(-1.2, 1.2, (700_000, 2)).astype(np.float32)  # more than one block
    path = written(tmp_path / "x.wav", noise, rate_hz, subtype="FLOAT")
    mono = np.clip(noise.mean(axis=1, dtype=np.float64).astype(np.float32), -1.0, 1.0)
    whole = mono if rate_hz == RATE_HZ else np.clip(soxr.resample(mono, rate_hz, RATE_HZ, quality="HQ"), -1.0, 1.0)
    np.testing.assert_array_equal(load(path, RATE_HZ).samples, whole)
    part = load(path, RATE_HZ, 7.0, 15.0).samples
    mono = mono[7 * rate_hz : 15 * rate_hz]
    whole = mono if rate_hz == RATE_HZ else np.clip(soxr.resample(mono, rate_hz, RATE_HZ, quality="HQ"), -1.0, 1.0)
    np.testing.assert_array_equal(part, whole)


def silence(path: Path, seconds: int, rate_hz: int, channels: int) -> Path:
    with soundfile.SoundFile(path, "w", rate_hz, channels) as file:
        for _ in range(seconds):
            file.write(np.zeros((rate_hz, channels), np.int16))
    return path


def test_many_channels_need_the_memory_of_one(tmp_path: Path) -> None:
    path = silence(tmp_path / "x.flac", 60, 48_000, 8)  # 92 MB as floats, of which 3.8 MB are needed
    tracemalloc.start()
    try:
        assert load(path, RATE_HZ).duration_s == 60.0
        assert tracemalloc.get_traced_memory()[1] < 25e6
    finally:
        tracemalloc.stop()


def test_an_utterance_of_days_is_refused_and_its_segments_are_not(tmp_path: Path) -> None:
    path = written(tmp_path / "x.wav", np.zeros(50 * 3600, np.int16), rate_hz=10)
    assert refusal(path).endswith(
        "x.wav: 5 h are too long for one utterance, 4 h at most; cut it into segments, for example with a manifest of "
        "offsets and durations"
    )
    assert load(path, 100, 3600.0, 3660.0).duration_s == 60.0
    assert load(path, 1, 0.0, 4 * 3600.0).duration_s == 4 * 3600.0


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")  # opening it would wait for ever
    (tmp_path / "device.wav").symlink_to("/dev/zero")
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "dangling.wav").symlink_to(tmp_path / "nowhere.wav")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket.wav"))
        for name in ("pipe", "device", "socket"):
            assert "is a pipe, a socket or a device, not a file" in refusal(tmp_path / f"{name}.wav")
    assert "is a folder" in refusal(tmp_path / "folder.wav")
    assert "is a link to nothing" in refusal(tmp_path / "dangling.wav")
