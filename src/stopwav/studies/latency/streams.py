"""Streams through one engine: in its own process one utterance at a time, and out here their pieces, round by round."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from stopwav.engines.protocol import Session, StreamingEngine
from stopwav.engines.registry import make_streaming
from stopwav.errors import Caution, StopwavError
from stopwav.measure.clock import Pace, PacedCall, WallClock, feed
from stopwav.measure.memory import host_baseline_bytes, measure_host_peak
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome, describe_error, is_out_of_memory
from stopwav.measure.sampler import MAX_WARMUP_S, warm_up
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.audio import Audio, load
from stopwav.speech.events import Chunk, Hypothesis, Stage, TraceBuilder
from stopwav.speech.utterance import Utterance
from stopwav.studies.corpus_header import duration_s
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.worker import Worker, outcome_to_piece


class EngineRound:
    """One engine in one round: asks its worker for what the record does not have yet, and appends the pieces."""

    def __init__(self, name: str, engine: str, index: int, spec: LatencySpec, plan: Plan, record: Record) -> None:
        self._name, self._index = name, index
        self._spec, self._plan, self._record = spec, plan, record
        self._worker = Worker(StreamRunner, (engine, spec.chunk_ms))
        # Whether a stream of this round completed.
        self._completed = False

    def stream(self, utterance: Utterance) -> None:
        """Stream one utterance, unless that was done before."""
        key = ("stream", self._index, self._name, utterance.id)
        stored = self._record.find(key)
        if stored is None:
            outcome, data = _failed_inside(self._stream(utterance))
            stored = outcome_to_piece(key, outcome, data)
            self._record.append(stored)
        self._completed = self._completed or stored.status == "ok"

    def measure_memory(self, longest: Utterance) -> None:
        """Measure the peak memory of streaming the longest utterance, unless that was done before.

        A run that was stopped after its streams has no process that is warm: one is loaded for this. Where no stream
        completed, that is not tried again, and the piece says so.
        """
        key = ("memory", self._index, self._name)
        if key in self._record:
            return
        outcome = Outcome("skipped", message="no stream of this round completed")
        if self._completed:
            outcome = self._warm_up(longest) if not self._worker.warm else Outcome("ok")
        if self._worker.warm:
            outcome = self._worker.call("peak_memory", longest, time_limit_s=self._spec.time_limit_s)
        outcome, data = _failed_inside(outcome)
        self._record.append(outcome_to_piece(key, outcome, data if outcome.ok else {}))

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _stream(self, utterance: Utterance) -> Outcome:
        if not self._worker.warm:
            outcome = self._warm_up(utterance)
            if not self._worker.warm:
                return outcome
        paced_s = duration_s(utterance) if self._spec.pace != "virtual" else 0.0
        limit_s = self._spec.time_limit_s + paced_s
        return self._worker.call("stream", utterance, self._spec.pace, time_limit_s=limit_s)

    def _warm_up(self, utterance: Utterance) -> Outcome:
        """The first stream of the process, which is kept apart, and the warm-up where it completed."""
        limit_s = self._spec.time_limit_s
        first = self._worker.call("stream", utterance, "virtual", time_limit_s=limit_s)
        if not first.ok or first.value["failure"]:
            return first
        outcome = self._worker.call("warm_up", utterance, self._plan, time_limit_s=MAX_WARMUP_S + limit_s)
        if outcome.ok:
            self._worker.warm = True
            attempt = sum(piece.key[:3] == ["load", self._index, self._name] for piece in self._record.pieces)
            data = {**outcome.value, "first": first.value["trace"]}
            self._record.append(Piece(key=["load", self._index, self._name, attempt], status="ok", data=data))
        return outcome


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
                chunks.add(_chunk(call))
        except Exception as error:  # whatever an engine raises is a result
            if is_out_of_memory(error):
                raise
            failure = f"{self._place(audio, len(chunks))}: {describe_error(error)}"
        trace = chunks.trace(audio.duration_s, self._chunk_s, self._engine.info.lookahead_s)
        return {"trace": trace.to_json(), "failure": failure}

    def warm_up(self, utterance: Utterance, plan: Plan) -> dict[str, Any]:
        """Warm the engine up, and return its description, its load time and the time of each warm-up stream."""
        audio = self._load(utterance)
        warmup_s: tuple[float, ...] = ()
        try:
            warmup_s, warnings = warm_up(lambda: self._drain(audio), self._clock, plan)
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
        return load(utterance.path, self._engine.info.sample_rate_hz, utterance.start_s, utterance.end_s)

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
            _texts(call.result)

    def _place(self, audio: Audio, index: int) -> str:
        start_s = index * self._chunk_s
        if start_s >= audio.duration_s:
            return "at the end of the stream"
        return f"in chunk {index + 1} (audio {start_s:.2f} to {min(start_s + self._chunk_s, audio.duration_s):.2f} s)"


def _chunk(call: PacedCall) -> Chunk:
    stages = tuple(Stage(span.path, span.start_s, span.duration_s) for span in call.spans)
    return Chunk(call.due_s, call.start_s, call.done_s, stages, _texts(call.result))


def _texts(returned: object) -> tuple[str, ...]:
    """The texts that an engine returned; an error where it returned something else."""
    items = returned if isinstance(returned, (list, tuple)) else [returned]
    texts = []
    for item in items:
        if not isinstance(item, Hypothesis) or not isinstance(item.text, str):
            raise StopwavError(f"the engine returned {_brief(item)} where a list of Hypothesis(text) is expected")
        # Also of a type of another's, which could not be read outside this process.
        texts.append(str.__str__(item.text))
    return tuple(texts)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
