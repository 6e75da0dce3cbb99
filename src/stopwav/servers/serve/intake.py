"""Audio as clients send it, turned into samples as the engine takes them: piece by piece, or from a whole file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from stopwav.errors import StopwavError

# How samples are written: 16-bit integers or 32-bit floats, both little-endian.
SampleFormat = Literal["int16", "float32"]
SAMPLE_BYTES: dict[SampleFormat, int] = {"int16": 2, "float32": 4}
# From telephone audio at half its usual rate to studio recordings: anything else is a mistake.
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 4_000, 192_000
# What an offline engine is given at once, and what a file may hold: OpenAI's own limit for its newer models. In memory
# it is 96 MB of samples.
LONGEST_AUDIO_S = 1_500
# A read of 4 MB, whatever the number of channels.
BLOCK_SAMPLES = 2**20

_FULL_SCALE = np.float32(32768.0)


class IntakeError(StopwavError):
    """Audio that is not accepted: it is no audio, or longer than the server takes at once."""

    def __init__(self, reason: Literal["garbage", "too-large"], message: str) -> None:
        super().__init__(message)
        self.reason: Literal["garbage", "too-large"] = reason


def too_long() -> IntakeError:
    """Return the error of audio beyond the limit."""
    return IntakeError("too-large", f"the audio is longer than {LONGEST_AUDIO_S} s; send it in parts")


class PcmIntake:
    """The samples of one stream: bytes in, mono samples between -1 and 1 at the engine's rate out."""

    def __init__(self, sample_format: SampleFormat, rate_hz: int, engine_rate_hz: int) -> None:
        self._format: SampleFormat = sample_format
        self._rest = b""
        self._resampler = None
        if rate_hz != engine_rate_hz:
            self._resampler = soxr.ResampleStream(rate_hz, engine_rate_hz, 1, dtype="float32", quality="HQ")

    def feed(self, data: bytes) -> NDArray[np.float32]:
        """Return the samples that these bytes complete; a sample may be cut between two messages."""
        data = self._rest + data
        whole = len(data) - len(data) % SAMPLE_BYTES[self._format]
        self._rest = data[whole:]
        if self._format == "int16":
            samples = np.frombuffer(data[:whole], "<i2").astype(np.float32) / _FULL_SCALE
        else:
            samples = _bounded(np.frombuffer(data[:whole], "<f4").astype(np.float32))
        return samples if self._resampler is None else _bounded(self._resampler.resample_chunk(samples))

    def end(self) -> NDArray[np.float32]:
        """Return the samples that the resampler still holds."""
        if self._resampler is None:
            return np.zeros(0, np.float32)
        return _bounded(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def decode_file(data: bytes, engine_rate_hz: int) -> NDArray[np.float32]:
    """Return the audio of a file in any format that libsndfile reads, mono, at the engine's rate.

    It is read block by block and never beyond the limit: a small file can hold days of silence.
    """
    blocks: list[NDArray[np.float32]] = []
    count = 0
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if not LOWEST_RATE_HZ <= file.samplerate <= HIGHEST_RATE_HZ:
                raise IntakeError("garbage", f"a sampling rate of {file.samplerate} Hz is not supported")
            for block in _blocks(file):
                count += len(block)
                if count > LONGEST_AUDIO_S * file.samplerate:
                    raise too_long()
                blocks.append(block)
            rate_hz = file.samplerate
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").strip(" .\n")
        message = f"the file is not readable as audio ({reason}); send WAV, FLAC, OGG or MP3"
        raise IntakeError("garbage", message) from None
    if not count:
        raise IntakeError("garbage", "the file has no samples")
    samples = np.concatenate(blocks)
    return samples if rate_hz == engine_rate_hz else _bounded(soxr.resample(samples, rate_hz, engine_rate_hz))


def _blocks(file: soundfile.SoundFile) -> Iterator[NDArray[np.float32]]:
    size = max(1, BLOCK_SAMPLES // file.channels)
    while len(frames := file.read(size, dtype="float32", always_2d=True)):
        yield _bounded(frames.mean(axis=1, dtype=np.float64).astype(np.float32))


def _bounded(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The samples between -1 and 1; one that is not a number is silence: a client must not break the engine with it."""
    return np.clip(np.nan_to_num(samples, nan=0.0), -1.0, 1.0).astype(np.float32, copy=False)
