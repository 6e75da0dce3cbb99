"""Streams through one engine: in its own process one utterance at a time, and out here their pieces, round by round."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from stopwav.engines.protocol import Session, StreamingEngine
from stopwav.engines.registry import make_streaming
from stopwav.errors import Caution, StopwavError
from stopwav.measure.clock import Pace, PacedCall, WallClock, feed
from stopwav.measure.memory import host_baseline_bytes, measure_host_peak
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome, describe_error, is_out_of_memory
from stopwav.measure.sampler import MAX_WARMUP_S, MIN_WARMUP_CALLS, warm_up
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.servers.registry import is_server
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.audio_file import duration_s
from stopwav.speech.events import TraceBuilder
from stopwav.speech.utterance import Utterance
from stopwav.studies.budget import Budget
from stopwav.studies.engine_calls import chunk_of, returned_texts
from stopwav.studies.latency.server_streams import NO_MEMORY, ServerRunner
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.worker import LOAD_LIMIT_S, Worker, outcome_to_piece

# Seconds of an utterance that warm up a process where time is short: all chunks but the last are of one length, and an
# engine ten times slower than speech is warm within a minute and a half.
WARM_UP_AUDIO_S = 2.0


class BudgetSpentError(Exception):
    """The time of the run is over in the midst of a call, which says nothing of the engine."""


@dataclass(frozen=True)
class OpenedEngine:
    """An engine in the process of the first round, loaded and warm before there is a run file."""

    worker: Worker
    # The data of its load piece; None where it is not warm.
    load: dict[str, Any] | None
    # Seconds of compute per second of audio; None where no stream completed.
    rtf: float | None
    seconds: float


class EngineRound:
    """One engine in one round: asks its worker for what the record does not have yet, and appends the pieces."""

    def __init__(
        self,
        name: str,
        engine: str,
        index: int,
        spec: LatencySpec,
        record: Record,
        budget: Budget,
        opened: OpenedEngine | None = None,
    ) -> None:
        self.name, self._index = name, index
        self._spec, self._record, self._budget = spec, record, budget
        self._is_server = is_server(engine)
        self._worker = stream_worker(spec, engine) if opened is None else opened.worker
        # Seconds that this round takes of the engine's time.
        self.seconds = 0.0 if opened is None else opened.seconds
        # Whether a stream of this round completed.
        self.completed = False
        if opened is not None and opened.load is not None:
            self._append_load(opened.load)

    def stream(self, utterances: Sequence[Utterance]) -> None:
        """Stream utterances, several of them at a time through a server, unless that was done before."""
        lacking = [utterance for utterance in utterances if self._key(utterance) not in self._record]
        if len(lacking) == 1:
            outcomes = [self._timed(lambda: self._stream(lacking[0]))]
        else:
            outcomes = self._stream_together(lacking) if lacking else []
        for utterance, outcome in zip(lacking, outcomes, strict=True):
            whole, data = _failed_inside(outcome)
            self._record.append(outcome_to_piece(self._key(utterance), whole, data))
        stored = (self._record.find(self._key(utterance)) for utterance in utterances)
        self.completed = self.completed or any(piece is not None and piece.status == "ok" for piece in stored)

    def _key(self, utterance: Utterance) -> tuple[str, int, str, str]:
        return ("stream", self._index, self.name, utterance.id)

    def _stream_together(self, utterances: Sequence[Utterance]) -> list[Outcome]:
        """The outcomes of streams at one time; what ends their process ends all of them."""
        if not self._worker.warm and not (outcome := self._timed(lambda: self._warm_up(utterances[0]))).ok:
            return [outcome] * len(utterances)
        limit_s = self._spec.time_limit_s + max(map(duration_s, utterances))
        outcome = self._timed(lambda: self._call("streams", list(utterances), limit_s=limit_s))
        if not outcome.ok:
            return [outcome] * len(utterances)
        return [replace(outcome, value=value) for value in outcome.value]

    def measure_memory(self, longest: Utterance) -> None:
        """Measure the peak memory of streaming the longest utterance, unless that was done before.

        A run that was stopped after its streams has no process that is warm: one is loaded for this. Where no stream
        completed, that is not tried again, and the piece says so.
        """
        key = ("memory", self._index, self.name)
        if key in self._record:
            return
        outcome = Outcome("skipped", message="no stream of this round completed")
        if self._is_server:
            outcome = Outcome("skipped", message=NO_MEMORY)
        elif self.completed:
            outcome = self._timed(lambda: self._warm_up(longest)) if not self._worker.warm else Outcome("ok")
        if self._worker.warm and not self._is_server:
            outcome = self._timed(lambda: self._call("peak_memory", longest, limit_s=self._spec.time_limit_s))
        outcome, data = _failed_inside(outcome)
        self._record.append(outcome_to_piece(key, outcome, data if outcome.ok else {}))

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _timed(self, call: Callable[[], Outcome]) -> Outcome:
        start_s = time.monotonic()
        try:
            return call()
        finally:
            self.seconds += time.monotonic() - start_s

    def _call(self, method: str, *arguments: object, limit_s: float) -> Outcome:
        """Ask the worker; a call that the end of the budget cuts short is none of the engine's failures."""
        within_s = min(limit_s, self._budget.left_s)
        self._worker.load_limit_s = min(LOAD_LIMIT_S, self._budget.left_s)
        outcome = self._worker.call(method, *arguments, time_limit_s=within_s)
        if outcome.status == "timeout" and not self._budget.left_s:
            raise BudgetSpentError
        return outcome

    def _stream(self, utterance: Utterance) -> Outcome:
        if not self._worker.warm:
            outcome = self._warm_up(utterance)
            if not self._worker.warm:
                return outcome
        paced_s = duration_s(utterance) if self._spec.pace != "virtual" else 0.0
        return self._call("stream", utterance, self._spec.pace, limit_s=self._spec.time_limit_s + paced_s)

    def _warm_up(self, utterance: Utterance) -> Outcome:
        outcome, load = warm_up_process(self._call, self._spec, warm_up_part(self._spec, utterance))
        if load is not None:
            self._worker.warm = True
            self._append_load(load)
        return outcome

    def _append_load(self, load: dict[str, Any]) -> None:
        attempt = sum(key[:3] == ("load", self._index, self.name) for key in self._record.keys)
        self._record.append(Piece(key=["load", self._index, self.name, attempt], status="ok", data=load))


def stream_worker(spec: LatencySpec, engine: str, load_limit_s: float = LOAD_LIMIT_S) -> Worker:
    """Return the worker of an engine, or of a server's client."""
    arguments = (engine, spec.chunk_ms)
    if is_server(engine):
        return Worker(ServerRunner, arguments, "server", load_limit_s, failed="was not reached")
    return Worker(StreamRunner, arguments, load_limit_s=load_limit_s)


def warm_up_part(spec: LatencySpec, utterance: Utterance) -> Utterance:
    """Return the part of an utterance that warms a process up: of a fixed plan all of it."""
    if not spec.is_budgeted or duration_s(utterance) <= WARM_UP_AUDIO_S:
        return utterance
    return replace(utterance, end_s=utterance.start_s + WARM_UP_AUDIO_S)


def warm_up_process(
    call: Callable[..., Outcome], spec: LatencySpec, utterance: Utterance
) -> tuple[Outcome, dict[str, Any] | None]:
    """Return how the first stream of a process and its warm-up ended, and the data of its load piece.

    The first stream is kept apart; where it or the warm-up failed, there are no data.
    """
    first = call("stream", utterance, "virtual", limit_s=spec.time_limit_s)
    if not first.ok or first.value["failure"]:
        return first, None
    # Where time is short, one stream of a second or more: that is tens of calls.
    streams = 1 if spec.is_budgeted else MIN_WARMUP_CALLS
    outcome = call("warm_up", utterance, Plan(seed=spec.seed), streams, limit_s=MAX_WARMUP_S + spec.time_limit_s)
    return outcome, {**outcome.value, "first": first.value["trace"]} if outcome.ok else None


def _failed_inside(outcome: Outcome) -> tuple[Outcome, dict[str, Any]]:
    """The outcome of a call with the data it returned; of a stream in which the engine failed, an error."""
    data = dict(outcome.value) if isinstance(outcome.value, dict) else {}
    failure = data.pop("failure", "")
    return (replace(outcome, status="error", message=failure) if failure else outcome), data


class StreamRunner:
    """One engine in its process. Each method returns plain values, ready for the run file."""

    def __init__(self, engine: str, chunk_ms: float | None) -> None:
        self._clock = WallClock()
        loaded = self._clock.time(lambda: make_streaming(engine))
        self._engine: StreamingEngine = loaded.result
        self._load_s = loaded.wall_s
        self._loaded_bytes = host_baseline_bytes()
        info = self._engine.info
        self._chunk_s = info.chunk_s if chunk_ms is None else chunk_ms / 1e3
        if not self._chunk_s > 0 or not info.sample_rate_hz > 0:
            raise StopwavError(f"engine {engine!r}: chunk_s={info.chunk_s} and sample_rate_hz must be above 0")

    def stream(self, utterance: Utterance, pace: Pace) -> dict[str, Any]:
        """Return the trace of one stream and, where the engine failed in it, the chunk and the reason."""
        audio = self._load(utterance)
        # Collect our own garbage before the stream, not during one of its chunks.
        gc.collect()
        chunks = TraceBuilder()
        failure = ""
        try:
            for call in self._feed(audio, pace):
                chunks.add(chunk_of(call))
        except Exception as error:  # whatever an engine raises is a result
            if is_out_of_memory(error):
                raise
            failure = f"{self._place(audio, len(chunks))}: {describe_error(error)}"
        trace = chunks.trace(audio.duration_s, self._chunk_s, self._engine.info.lookahead_s)
        return {"trace": trace.to_json(), "failure": failure}

    def warm_up(self, utterance: Utterance, plan: Plan, min_streams: int) -> dict[str, Any]:
        """Warm the engine up, and return its description, its load time and the time of each warm-up stream."""
        audio = self._load(utterance)
        warmup_s: tuple[float, ...] = ()
        try:
            warmup_s, warnings = warm_up(lambda: self._drain(audio), self._clock, plan, min_streams)
        except Exception as error:  # an engine that raises now and then is measured all the same
            warnings = (Caution("not-warm", f"the warm-up failed: {describe_error(error)}"),)
        return {
            "engine": self._engine.info.to_json(),
            "load_s": self._load_s,
            "warmup_s": list(warmup_s),
            "cautions": [[warning.code, warning.message] for warning in warnings],
        }

    def peak_memory(self, utterance: Utterance) -> dict[str, Any]:
        """Return the host peak of one stream, in a pass of its own, and the memory of the loaded engine before it."""
        audio = self._load(utterance)
        return asdict(measure_host_peak(lambda: self._drain(audio), self._loaded_bytes))

    def _load(self, utterance: Utterance) -> Audio:
        return load_utterance(utterance, self._engine.info.sample_rate_hz)

    def _feed(self, audio: Audio, pace: Pace) -> Iterator[PacedCall]:
        size = max(1, round(self._chunk_s * audio.sample_rate_hz))
        starts = range(0, len(audio.samples), size)
        dues_s = [min(start + size, len(audio.samples)) / audio.sample_rate_hz for start in starts]
        session = self._engine.open()
        return feed([*dues_s, audio.duration_s], self._calls(session, audio, size), self._clock, pace)

    def _calls(self, session: Session, audio: Audio, size: int) -> Iterator[Callable[[], object]]:
        for start in range(0, len(audio.samples), size):
            # A copy: an engine that keeps or changes its input must not reach the audio of the next stream.
            yield partial(session.push, audio.samples[start : start + size].copy())
        yield session.finish

    def _drain(self, audio: Audio) -> None:
        for call in self._feed(audio, "virtual"):
            returned_texts(call.result)

    def _place(self, audio: Audio, index: int) -> str:
        start_s = index * self._chunk_s
        if start_s >= audio.duration_s:
            return "at the end of the stream"
        return f"in chunk {index + 1} (audio {start_s:.2f} to {min(start_s + self._chunk_s, audio.duration_s):.2f} s)"
