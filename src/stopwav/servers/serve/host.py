"""The part of `serve` that runs in a worker's process: the engine, and the sessions of all its streams."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import BatchingEngine, Engine, EngineInfo, Session, StreamingEngine
from stopwav.engines.registry import make
from stopwav.errors import StopwavError
from stopwav.servers.serve.intake import LONGEST_AUDIO_S, IntakeError, PcmIntake, SampleFormat, decode_file, too_long
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

# Engines of one decoder, which has one stream at a time: each stream in the worker gets an engine of its own. A class
# of a user's says so by an attribute `one_stream = True`.
ONE_STREAM = frozenset({"pocketsphinx"})


@dataclass(frozen=True)
class EngineFacts:
    """What the server has to know of the engine in a worker."""

    info: EngineInfo
    # Whether it takes audio chunk by chunk, and whether it takes whole utterances.
    streaming: bool
    offline: bool
    # Whether it advances many streams in one call.
    batching: bool
    pid: int


@dataclass(frozen=True)
class RejectedAudio:
    """The answer to audio that is not accepted: the client's mistake, not an error of the engine."""

    reason: Literal["garbage", "too-large"]
    message: str


@dataclass(frozen=True)
class FailedCall:
    """The answer to a call that failed in a batch, whose other calls may have succeeded."""

    message: str


Answer = list[Hypothesis] | RejectedAudio | FailedCall
# The position of a call in its batch, its session, and its samples.
_Call = tuple[int, Session, NDArray[np.float32] | None]


@dataclass
class _Stream:
    """A stream in the worker: its session from the first sample on, and what is still to be pushed of a file."""

    intake: PcmIntake | None = None
    engine: Any = None
    session: Session | None = None
    samples: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    pushed: int = 0


class _Collected:
    """The session of an offline engine: the audio is kept, and transcribed at the end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._blocks: list[NDArray[np.float32]] = []
        self._left = LONGEST_AUDIO_S * engine.info.sample_rate_hz

    def push(self, samples: NDArray[np.float32]) -> Sequence[Hypothesis]:
        self._left -= len(samples)
        if self._left < 0:
            raise too_long()
        self._blocks.append(samples)
        return []

    def finish(self) -> Sequence[Hypothesis]:
        audio = Audio(np.concatenate(self._blocks), self._engine.info.sample_rate_hz)
        return [Hypothesis(self._engine.transcribe([audio])[0])]


class StreamHost:
    """The engine and its streams by number; a call is one chunk of one stream, so that streams take turns."""

    def __init__(self, engine: str) -> None:
        self._spec = engine
        first = make(engine)
        if not isinstance(first, (Engine, StreamingEngine)):
            raise StopwavError(f"engine {engine!r} gives no text, so there is nothing to serve")
        self._engine: Any = first
        self._one_stream = bool(getattr(first, "one_stream", first.info.name in ONE_STREAM))
        self._free: list[Any] = [first] if self._one_stream else []
        self._streams: dict[int, _Stream] = {}
        # What is loaded is never garbage: looking through it now and then would stall all streams.
        gc.collect()
        gc.freeze()

    def describe(self) -> EngineFacts:
        """Return what the server has to know of the engine."""
        streaming, offline = isinstance(self._engine, StreamingEngine), isinstance(self._engine, Engine)
        batching = isinstance(self._engine, BatchingEngine) and not self._one_stream
        return EngineFacts(self._engine.info, streaming, offline, batching, os.getpid())

    def open(self, number: int, sample_format: SampleFormat, rate_hz: int) -> None:
        """Begin a stream of samples in this format."""
        intake = PcmIntake(sample_format, rate_hz, self._engine.info.sample_rate_hz)
        self._streams[number] = _Stream(intake)

    def push(self, number: int, data: bytes) -> list[Hypothesis] | RejectedAudio:
        """Return the hypotheses that this audio made visible."""
        stream = self._streams[number]
        assert stream.intake is not None
        try:
            return self._push(stream, stream.intake.feed(data))
        except IntakeError as error:
            return RejectedAudio(error.reason, str(error))

    def advance_all(self, calls: Sequence[tuple[int, bytes | None]]) -> list[Answer]:
        """Push audio to each of these streams, or finish it for None, in two calls of the engine at most.

        Audio that is not accepted is the answer of its stream alone; an error of the engine is that of all.
        """
        answers: list[Answer] = [[] for _ in calls]
        pushes: list[_Call] = []
        for at, (number, data) in enumerate(calls):
            samples = self._hear(number, data)
            if isinstance(samples, RejectedAudio | FailedCall):
                answers[at] = samples
            elif len(samples):  # engines need not know what to do with nothing
                pushes.append((at, self._session(self._streams[number]), samples))
        self._call_engine(answers, pushes)
        ends: list[_Call] = []
        for at, (number, data) in enumerate(calls):
            if data is None and isinstance(answers[at], list):
                session = self._streams[number].session
                if session is None:
                    answers[at] = [Hypothesis("")]
                else:
                    ends.append((at, session, None))
        self._call_engine(answers, ends)
        for number, data in calls:
            if data is None:
                self.drop(number)
        return answers

    def _hear(self, number: int, data: bytes | None) -> NDArray[np.float32] | RejectedAudio | FailedCall:
        """The samples of a chunk of a stream, or the rest of them at its end."""
        stream = self._streams.get(number)
        if stream is None or stream.intake is None:
            return FailedCall("the stream is not open")
        try:
            return stream.intake.end() if data is None else stream.intake.feed(data)
        except IntakeError as error:
            return RejectedAudio(error.reason, str(error))

    def _call_engine(self, answers: list[Answer], calls: list[_Call]) -> None:
        """Advance sessions together, and add the hypotheses of each to its answer."""
        if not calls:
            return
        try:
            results = self._engine.advance_all([(session, samples) for _, session, samples in calls])
        except Exception as error:
            # Which session it was is not known, nor how far the others came.
            for at, _, _ in calls:
                answers[at] = FailedCall(f"{type(error).__name__}: {error}")
            return
        for (at, _, _), result in zip(calls, results, strict=True):
            before = answers[at]
            answers[at] = [*(before if isinstance(before, list) else ()), *result]

    def finish(self, number: int) -> list[Hypothesis]:
        """Return the hypotheses that the end of the audio made visible, and forget the stream."""
        stream = self._streams[number]
        try:
            tail = [] if stream.intake is None else self._push(stream, stream.intake.end())
            return [*tail, *(stream.session.finish() if stream.session is not None else [Hypothesis("")])]
        finally:
            self.drop(number)

    def drop(self, number: int) -> None:
        """Forget a stream, whatever its state."""
        stream = self._streams.pop(number, None)
        if stream is not None and stream.engine is not None and self._one_stream:
            self._free.append(stream.engine)

    def load_file(self, number: int, data: bytes) -> float | RejectedAudio:
        """Begin a stream with a whole file and return its seconds.

        It is decoded here: a file that breaks the decoder ends this process, not the server.
        """
        try:
            samples = decode_file(data, self._engine.info.sample_rate_hz)
        except IntakeError as error:
            return RejectedAudio(error.reason, str(error))
        self._streams[number] = _Stream(samples=samples)
        return len(samples) / float(self._engine.info.sample_rate_hz)

    def advance(self, number: int) -> list[Hypothesis] | None:
        """Push the next chunk of a file and return its hypotheses; None once all of it was pushed."""
        stream = self._streams[number]
        if stream.pushed >= len(stream.samples):
            return None
        size = max(1, round(self._engine.info.chunk_s * self._engine.info.sample_rate_hz))
        chunk = stream.samples[stream.pushed : stream.pushed + size]
        stream.pushed += size
        return self._push(stream, chunk)

    def transcribe(self, number: int) -> str:
        """Return the text of a file, recognised as a whole, and forget the stream."""
        stream = self._streams[number]
        try:
            engine = self._lend(stream)
            return str(engine.transcribe([Audio(stream.samples, engine.info.sample_rate_hz)])[0])
        finally:
            self.drop(number)

    def _push(self, stream: _Stream, samples: NDArray[np.float32]) -> list[Hypothesis]:
        if len(samples) == 0:  # engines need not know what to do with nothing
            return []
        return list(self._session(stream).push(samples))

    def _session(self, stream: _Stream) -> Session:
        """The session of a stream, which begins with its first samples."""
        if stream.session is None:
            engine = self._lend(stream)
            stream.session = engine.open() if isinstance(engine, StreamingEngine) else _Collected(engine)
        return stream.session

    def _lend(self, stream: _Stream) -> Any:
        """The engine of a stream: the one of all, or where that takes one stream only, one that is free or new."""
        if stream.engine is None:
            new = self._one_stream and not self._free
            stream.engine = make(self._spec) if new else self._free.pop() if self._one_stream else self._engine
        return stream.engine
