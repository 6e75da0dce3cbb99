"""Engines whose texts tell what they heard, and that fail when they are told to by the audio itself."""

import os
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stopwav import EngineInfo, Hypothesis
from stopwav.speech.audio import Audio

RATE_HZ = 16_000
# A word per 100 ms.
WORD_SAMPLES = 1_600
# Chunks in which every sample is this: an endpoint, an error of the engine, the end of its process, a long wait.
ENDPOINT, ERROR, CRASH, HANG = 0.75, 0.25, 0.5, 0.125


def words(samples: int) -> str:
    """The text of so many samples."""
    return " ".join(f"w{number}" for number in range(1, round(samples / WORD_SAMPLES) + 1))


class Counting:
    """A streaming engine: the text has as many words as there were tenths of a second."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.info = EngineInfo(name="counting", version="1", sample_rate_hz=RATE_HZ, language="en")
        self.delay_s = delay_s

    def open(self) -> "CountingSession":
        return CountingSession(self.delay_s)


class CountingSession:
    def __init__(self, delay_s: float) -> None:
        self.delay_s, self.heard = delay_s, 0

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        time.sleep(self.delay_s)
        self.heard += len(samples)
        told = {
            value: len(samples) >= 100 and bool((samples == value).all()) for value in (ENDPOINT, ERROR, CRASH, HANG)
        }
        if told[ERROR]:
            raise ValueError("told to fail")
        if told[CRASH]:
            os.abort()
        if told[HANG]:
            time.sleep(3600)
        return [Hypothesis(words(self.heard), endpoint=told[ENDPOINT])]

    def finish(self) -> list[Hypothesis]:
        return [Hypothesis(words(self.heard) + " end")]


class Whole:
    """An offline engine."""

    def __init__(self) -> None:
        self.info = EngineInfo(name="whole", version="1", sample_rate_hz=RATE_HZ)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        return [words(len(audio.samples)) for audio in batch]


class Refuses:
    """An engine that does not load."""

    def __init__(self) -> None:
        raise RuntimeError("no model here")


class Batching(Counting):
    """The same engine, which advances many streams in one call; a final text says how many were in it at most."""

    def open(self) -> "BatchedSession":
        return BatchedSession(self.delay_s)

    def advance_all(
        self, calls: Sequence[tuple["BatchedSession", NDArray[np.float32] | None]]
    ) -> list[list[Hypothesis]]:
        assert len({id(session) for session, _ in calls}) == len(calls)
        for session, _ in calls:
            session.largest = max(session.largest, len(calls))
        return [session.finish() if samples is None else session.push(samples) for session, samples in calls]


class BatchedSession(CountingSession):
    largest = 0

    def finish(self) -> list[Hypothesis]:
        return [Hypothesis(f"{words(self.heard)} batch{self.largest}")]
