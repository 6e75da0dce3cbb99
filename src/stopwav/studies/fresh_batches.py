"""A batch that is given to an engine again and again, as a copy each time: an engine may change its input in place."""

from __future__ import annotations

from stopwav.speech.audio import Audio

# Copies that lie ready at a time, made before a value is timed: 256 of a second of speech, so that a value of short
# calls is long, and one of a batch so large that no call with it is short.
MAX_READY_BYTES = 16 * 2**20


class FreshBatches:
    """The same audio in every place of a batch; each batch that is taken is a copy of its own."""

    def __init__(self, audio: Audio, size: int = 1) -> None:
        self._audio, self._size = audio, size
        self._ready: list[list[Audio]] = []
        # One from the start: the memory of the loaded engine is read with its input.
        self.prepare(1)

    def prepare(self, count: int) -> int:
        """Have copies ready for the next calls, as many as are asked for or fit; return how many."""
        batch_bytes = max(1, self._audio.samples.nbytes * self._size)
        fitting = max(1, min(count, MAX_READY_BYTES // batch_bytes))
        while len(self._ready) < fitting:
            self._ready.append(self._copy())
        return fitting

    def take(self) -> list[Audio]:
        """Return a batch that nobody has had, made now where none is ready."""
        return self._ready.pop() if self._ready else self._copy()

    def _copy(self) -> list[Audio]:
        return [Audio(self._audio.samples.copy(), self._audio.sample_rate_hz) for _ in range(self._size)]
