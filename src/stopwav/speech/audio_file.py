"""A file of audio, or the bytes of an archive that are one: opened, its header read, its state of repair."""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import soundfile

from stopwav.errors import StopwavError
from stopwav.speech.utterance import ByteRange, Utterance

# A WAV written to a pipe cannot know its length and claims the largest possible: sox about 2 GiB, ffmpeg about 4 GiB.
UNKNOWN_WAV_BYTES = 0x7FFF_0000


@dataclass(frozen=True)
class AudioHeader:
    """The facts that a file states about its audio."""

    duration_s: float
    sample_rate_hz: int
    channels: int


@dataclass(frozen=True)
class AudioFile:
    """A file of audio: the whole of it, or a range of its bytes."""

    path: Path
    byte_range: ByteRange | None = None

    def __str__(self) -> str:
        return str(self.path) if self.byte_range is None else f"{self.path} (at byte {self.byte_range.start:,})"

    @property
    def size_bytes(self) -> int:
        """The size of the audio file; of a range, as much of it as the file has."""
        size_bytes = self.path.stat().st_size
        if self.byte_range is None:
            return size_bytes
        return max(0, min(self.byte_range.size, size_bytes - self.byte_range.start))

    @contextmanager
    def bytes(self) -> Iterator[BinaryIO]:
        """Open it as a file of bytes of its own."""
        with self.path.open("rb") as file:
            yield file if self.byte_range is None else _Range(file, self.byte_range)  # type: ignore[misc]

    @contextmanager
    def opened(self) -> Iterator[soundfile.SoundFile]:
        """Open it as audio."""
        if self.byte_range is None:
            with soundfile.SoundFile(os.fsencode(self.path)) as file:
                yield file
            return
        with self.bytes() as content, soundfile.SoundFile(content) as file:
            yield file


class _Range(io.RawIOBase):
    """A range of the bytes of an open file, as a file of its own."""

    def __init__(self, file: BinaryIO, byte_range: ByteRange) -> None:
        self._file, self._range = file, byte_range
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._range.size}[whence]
        self._place = max(0, origin + offset)
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = max(0, min(len(buffer), self._range.size - self._place))
        self._file.seek(self._range.start + self._place)
        content = self._file.read(count)
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def audio_file(utterance: Utterance) -> AudioFile:
    """Return the file that an utterance is in."""
    return AudioFile(utterance.path, utterance.byte_range)


def read_header(utterance: Utterance) -> AudioHeader:
    """Return the header of the file that an utterance is in; raise where it is not readable as audio."""
    try:
        with audio_file(utterance).opened() as file:
            return AudioHeader(file.frames / file.samplerate, file.samplerate, file.channels)
    except (OSError, soundfile.LibsndfileError) as error:
        reason = error.strerror if isinstance(error, OSError) else audio_error(error)
        raise StopwavError(
            f"{audio_file(utterance)} is not readable as audio ({reason}); repair it or remove it from the corpus"
        ) from error


def file_duration_s(utterance: Utterance) -> float | None:
    """Return how long the file of an utterance says that it is; None where it cannot be read."""
    try:
        return read_header(utterance).duration_s
    except StopwavError:
        return None


def duration_s(utterance: Utterance) -> float:
    """Return how long the utterance lasts; 0 where its file cannot be read, which whoever loads it will report."""
    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    whole_s = file_duration_s(utterance)
    return 0.0 if whole_s is None or not math.isfinite(whole_s) else whole_s - utterance.start_s


def count_frames(audio: AudioFile) -> tuple[int, int]:
    """Count the frames of a damaged file that can be read (to within a small block) and those its header promises."""
    readable = promised = 0
    try:
        with audio.opened() as file:
            promised = file.frames
            while block := len(file.read(1024, dtype="float32", always_2d=True)):
                readable += block
    except soundfile.LibsndfileError:
        pass  # the point of failure is the answer
    return readable, promised


def check_wav_length(audio: AudioFile) -> None:
    """Raise where a WAV's data chunk is cut short: libsndfile silently reads what is there."""
    size_bytes = audio.size_bytes
    with audio.bytes() as file:
        if file.read(12)[:4] != b"RIFF":
            return  # RF64 and big-endian files are left to libsndfile
        frame_bytes = 1
        while len(head := file.read(8)) == 8:
            name, chunk_bytes = struct.unpack("<4sI", head)
            if name == b"fmt ":
                frame_bytes = max(1, struct.unpack_from("<H", file.read(14).ljust(14, b"\0"), 12)[0])
                file.seek(-14, os.SEEK_CUR)
            if name == b"data":
                present_bytes = size_bytes - file.tell()
                if present_bytes < chunk_bytes < UNKNOWN_WAV_BYTES:
                    raise truncated(audio, present_bytes // frame_bytes, chunk_bytes // frame_bytes)
                return
            file.seek(chunk_bytes + chunk_bytes % 2, os.SEEK_CUR)


def audio_error(error: soundfile.LibsndfileError) -> str:
    """Return why libsndfile does not read a file, without the name of the file."""
    return str(error.error_string).removeprefix("Error : ").strip(" .\n")


def truncated(audio: AudioFile, readable: int, promised: int) -> StopwavError:
    """Return the error of a file that is shorter than its header says."""
    return StopwavError(
        f"{audio} is cut short: only {readable:,} of {promised:,} frames can be read; download or write the file again"
    )
