"""Audio: mono float32 samples at a known rate, and how to load them from a file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech.audio_file import AudioFile, audio_error, audio_file, check_wav_length, count_frames, truncated
from stopwav.speech.utterance import LONGEST_S, Utterance, no_file_reason, too_long

# A manifest's rounded duration may end a little after its file does; anything beyond that is a mistake in the manifest.
OVERSHOOT_S = 0.05

# Lossy decoders and resamplers overshoot full scale a little, which is clipped as in any 16-bit path. Twice full scale
# is not an overshoot: such a float file is in another unit (often that of 16-bit integers).
LARGEST_PEAK = 2.0

UNKNOWN_FRAMES = 2**62  # libsndfile's frame count of a FLAC stream that does not know its length is just below 2**63

# A read of 4 MB, whatever the number of channels: with its copies in the mixer and the resampler it is small against
# the samples of any recording that is long enough for memory to matter.
BLOCK_SAMPLES = 2**20

MP3_SLACK_FRAMES = 3 * 1152  # MP3 lengths are estimates to a few codec frames when no encoder tag gives them


@dataclass(frozen=True)
class Audio:
    """Mono samples in [-1, 1] and their rate."""

    samples: NDArray[np.float32]
    sample_rate_hz: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate_hz

    def resampled(self, sample_rate_hz: int) -> Audio:
        """Return the audio at another rate; itself if it has that rate already."""
        if sample_rate_hz == self.sample_rate_hz:
            return self
        samples = soxr.resample(self.samples, self.sample_rate_hz, sample_rate_hz, quality="HQ")
        return Audio(np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False), sample_rate_hz)

    def pcm16(self) -> NDArray[np.int16]:
        """Return the samples as 16-bit integers, clipped, never wrapped around."""
        scaled = self.samples * np.float32(32768.0)
        np.rint(scaled, out=scaled)  # in place: an hour of samples is 230 MB
        np.clip(scaled, -32768, 32767, out=scaled)
        return scaled.astype(np.int16)


def load(path: Path | str, sample_rate_hz: int, start_s: float = 0.0, end_s: float | None = None) -> Audio:
    """Load the audio of a file, or of its part from `start_s` to `end_s`, as the mean of its channels at this rate.

    Only that part is read, block by block: the result is all that is held in memory. A WAV, FLAC or tagged MP3 file
    that is shorter than its header says is an error; OGG files have no such header, so one that was cut short reads as
    a shorter file, or as none.
    """
    return _load(AudioFile(Path(path)), sample_rate_hz, start_s, end_s, None)


def load_utterance(utterance: Utterance, sample_rate_hz: int) -> Audio:
    """Load the audio of an utterance as `load` does: its part of its file, of its channel where it has one."""
    audio = audio_file(utterance)
    return _load(audio, sample_rate_hz, utterance.start_s, utterance.end_s, utterance.channel)


def _load(audio: AudioFile, sample_rate_hz: int, start_s: float, end_s: float | None, channel: int | None) -> Audio:
    if sample_rate_hz <= 0:
        raise StopwavError(f"sample rate {sample_rate_hz} Hz is not possible: give a positive one, such as 16000")
    if not os.path.isfile(audio.path):  # unlike Path.is_file, never raises; a pipe or a device would never end
        reason = no_file_reason(audio.path)
        raise StopwavError(f"{audio} {reason}; correct the path in the manifest or on the command line")
    if audio.size_bytes == 0:
        raise StopwavError(f"{audio} is empty (0 bytes); write it again or remove it from the corpus")
    samples = _read(audio, sample_rate_hz, start_s, end_s, channel)
    if len(samples) == 0:
        raise StopwavError(f"{audio} has no samples left at {sample_rate_hz} Hz; remove it from the corpus")
    return Audio(samples, sample_rate_hz)


def _read(
    audio: AudioFile, sample_rate_hz: int, start_s: float, end_s: float | None, channel: int | None
) -> NDArray[np.float32]:
    """Return the mono samples of the part at this rate."""
    try:
        with audio.opened() as file:
            if file.format.startswith("WAV"):
                check_wav_length(audio)
            _check_channel(audio, file, channel)
            first, last = _frame_range(audio, file, start_s, end_s)
            slack = MP3_SLACK_FRAMES if file.format == "MP3" else 0
            file.seek(first)
            mono = _Mono(audio, file, first, last, channel)
            samples = _resampled(mono, file.samplerate, sample_rate_hz)
    except soundfile.LibsndfileError as error:
        readable, promised = count_frames(audio)
        if 0 < readable < promised:
            raise truncated(audio, readable, promised) from None
        raise StopwavError(
            f"{audio} is not readable as audio ({audio_error(error)}); convert it, for example with ffmpeg, to WAV or "
            "FLAC"
        ) from None
    if mono.place == first:
        raise StopwavError(f"{audio} has no samples; write it again or remove it from the corpus")
    if mono.place < last - slack:
        raise truncated(audio, mono.place, last)
    if mono.peak > LARGEST_PEAK:
        raise StopwavError(
            f"{audio} has samples as large as {mono.peak:g}, where full scale is 1; scale it to [-1, 1] and write it "
            "again"
        )
    return samples


def _check_channel(audio: AudioFile, file: soundfile.SoundFile, channel: int | None) -> None:
    if channel is not None and channel >= file.channels:
        count = f"{file.channels} channel{'' if file.channels == 1 else 's'}"
        raise StopwavError(f"{audio} has {count} and no channel {channel + 1}; correct the channel in the corpus")


def _frame_range(audio: AudioFile, file: soundfile.SoundFile, start_s: float, end_s: float | None) -> tuple[int, int]:
    """Return the first frame of the part and the one after its last; an error where the file is too short."""
    if file.frames == 0:
        raise StopwavError(f"{audio} has no samples; write it again or remove it from the corpus")
    if file.frames > UNKNOWN_FRAMES:
        raise StopwavError(
            f"{audio} does not say how long it is (written to a pipe?); write it again with sox or ffmpeg"
        )
    duration_s = file.frames / file.samplerate
    stop_s = duration_s if end_s is None else end_s
    # In this form the test fails for NaN as well.
    if not (0.0 <= start_s < stop_s <= duration_s + OVERSHOOT_S and start_s < duration_s):
        until = "its end" if end_s is None else f"{end_s:g} s"
        raise StopwavError(
            f"{audio} lasts {duration_s:.3f} s and has no part from {start_s:g} s to {until}; "
            "correct the segment's times in the manifest"
        )
    if stop_s - start_s > LONGEST_S + OVERSHOOT_S:
        raise StopwavError(f"{audio}: {too_long(stop_s - start_s)}")
    return round(start_s * file.samplerate), min(file.frames, round(stop_s * file.samplerate))


class _Mono:
    """The mean of a file's channels, or one of them, between two frames, by block; how far it came, and the peak."""

    def __init__(self, audio: AudioFile, file: soundfile.SoundFile, first: int, last: int, channel: int | None) -> None:
        self._audio, self._file, self._channel = audio, file, channel
        self.place, self.last = first, last
        self.peak = 0.0

    def __len__(self) -> int:
        return self.last - self.place

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield the blocks in [-1, 1], up to the end of the part or of the file, whichever comes first."""
        size = max(1, BLOCK_SAMPLES // self._file.channels)
        while self.place < self.last:
            frames = self._file.read(min(size, len(self)), dtype="float32", always_2d=True)
            if len(frames) == 0:
                return
            if self._channel is not None:
                frames = frames[:, [self._channel]]
            self._check(frames)
            self.place += len(frames)
            yield np.clip(frames.mean(axis=1, dtype=np.float64).astype(np.float32), -1.0, 1.0)

    def _check(self, frames: NDArray[np.float32]) -> None:
        finite = np.isfinite(frames).all(axis=1)
        if not finite.all():
            at_s = (self.place + int(np.argmin(finite))) / self._file.samplerate
            raise StopwavError(
                f"{self._audio} has a sample that is not finite, first at {at_s:.4f} s; write the file again"
            )
        self.peak = max(self.peak, float(np.abs(frames).max()))


def _resampled(mono: _Mono, rate_hz: int, sample_rate_hz: int) -> NDArray[np.float32]:
    """Return all blocks in one array at this rate: the same samples, to the bit, as those of the whole resampled."""
    samples = np.empty(math.ceil(len(mono) * sample_rate_hz / rate_hz) + 1, np.float32)
    filled = 0
    for block in mono.blocks() if rate_hz == sample_rate_hz else _resampled_blocks(mono, rate_hz, sample_rate_hz):
        samples[filled : filled + len(block)] = block
        filled += len(block)
    return samples[:filled]


def _resampled_blocks(mono: _Mono, rate_hz: int, sample_rate_hz: int) -> Iterator[NDArray[np.float32]]:
    resampler = soxr.ResampleStream(rate_hz, sample_rate_hz, 1, dtype="float32", quality="HQ")
    for block in mono.blocks():
        yield np.clip(resampler.resample_chunk(block), -1.0, 1.0)
    yield np.clip(resampler.resample_chunk(np.zeros(0, np.float32), last=True), -1.0, 1.0)
