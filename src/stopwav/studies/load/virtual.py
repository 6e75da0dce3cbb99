"""A target in virtual time: an engine in a process of its own, one worker, and as many streams as a level has."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from stopwav.engines.protocol import BatchingEngine, StreamingEngine
from stopwav.engines.registry import make_streaming
from stopwav.measure.clock import WallClock
from stopwav.measure.process import Outcome
from stopwav.servers.serve.host import ONE_STREAM
from stopwav.servers.serve.options import DEFAULT_MAX_BATCH, DEFAULT_MAX_WAIT_MS
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.utterance import Utterance
from stopwav.studies.load.schedule import ScheduledSession
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.target import SLACK_S, LevelPlan
from stopwav.studies.load.virtual_line import Batching, LineStream, Samples, run_line
from stopwav.studies.worker import LOAD_LIMIT_S, Worker

# An engine is warm after a few seconds of audio.
WARM_UP_AUDIO_S = 3.0
# A level is cut when its work would take longer in real time; compute may be slower still where other work disturbs.
SLOWER = 3.0


class VirtualTarget:
    """A target while it is measured in virtual time."""

    def __init__(self, name: str, target: str, spec: LoadSpec, utterances: Sequence[Utterance]) -> None:
        self.name, self._target, self._spec, self._utterances = name, target, spec, utterances
        self._worker: Worker | None = None
        self._facts: dict[str, Any] = {}

    def measure(self, plan: LevelPlan) -> Outcome:
        """Return the raw observations of a level."""
        if self._worker is None:
            spec = self._spec
            wait_ms = DEFAULT_MAX_WAIT_MS if spec.max_wait_ms is None else spec.max_wait_ms
            batch = spec.max_batch or DEFAULT_MAX_BATCH, wait_ms / 1e3
            self._worker = Worker(VirtualWorker, (self._target, self._spec.chunk_ms, *batch))
            prepared = self._worker.call("prepare", list(self._utterances), time_limit_s=LOAD_LIMIT_S)
            if not prepared.ok:
                self.close()
                return prepared
            self._facts = prepared.value
        schedule = plan.schedule
        limit_s = SLOWER * plan.cut_s + SLACK_S
        outcome = self._worker.call("run", schedule.sessions, plan.cut_s, time_limit_s=limit_s)
        if not outcome.ok:
            self.close()
            return outcome
        fixed = {
            "target": self._facts,
            "ramp_s": schedule.ramp_s,
            "steady_s": schedule.steady_s,
            "processors": [],
            "faults": [],
            "looks": [],
        }
        return Outcome("ok", {**fixed, **outcome.value})

    def close(self) -> None:
        """End the process; the next level starts another."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class VirtualWorker:
    """The engine in its process. Each method returns plain values, ready for the run file."""

    def __init__(self, engine: str, chunk_ms: float | None, max_batch: int, max_wait_s: float) -> None:
        self._spec = engine
        self._engine: StreamingEngine = make_streaming(engine)
        info = self._engine.info
        self._chunk_s = info.chunk_s if chunk_ms is None else chunk_ms / 1e3
        self._one_stream = bool(getattr(self._engine, "one_stream", info.name in ONE_STREAM))
        self._free: list[StreamingEngine] = [self._engine]
        self._speeches: list[tuple[str, Audio, list[Samples], list[float]]] = []
        self._batching: Batching | None = None
        if isinstance(self._engine, BatchingEngine) and max_batch > 1:
            self._batching = Batching(self._engine.advance_all, max_batch, max_wait_s)

    def prepare(self, utterances: Sequence[Utterance]) -> dict[str, Any]:
        """Read the utterances, warm the engine up, and return its description."""
        self._speeches = [self._speech(utterance) for utterance in utterances]
        self._warm_up()
        gc.collect()
        gc.freeze()
        batch = None if self._batching is None else self._batching.most
        return {"engine": self._engine.info.to_json(), "chunk_s": self._chunk_s, "max_batch": batch}

    def run(self, sessions: Sequence[ScheduledSession], cut_s: float) -> dict[str, Any]:
        """Return what happened in the sessions of a level."""
        streams = [self._stream(session) for session in sessions]
        awaited = {id(stream) for stream, session in zip(streams, sessions, strict=True) if session.part == "steady"}
        if self._one_stream:
            self._make_free(_most_open(sessions, [speech[1].duration_s for speech in self._speeches]))
        gc.collect()
        ended_s = run_line(streams, WallClock(), cut_s, self._batching, lambda stream: id(stream) in awaited)
        facts = [self._facts(stream, session) for stream, session in zip(streams, sessions, strict=True)]
        return {"sessions": facts, "ended_s": ended_s}

    def _speech(self, utterance: Utterance) -> tuple[str, Audio, list[Samples], list[float]]:
        info = self._engine.info
        audio = load_utterance(utterance, info.sample_rate_hz)
        size = max(1, round(self._chunk_s * info.sample_rate_hz))
        starts = range(0, len(audio.samples), size)
        chunks: list[Samples] = [audio.samples[start : start + size].copy() for start in starts]
        dues_s = [min(start + size, len(audio.samples)) / info.sample_rate_hz for start in starts]
        return utterance.id, audio, [*chunks, None], [*dues_s, audio.duration_s]

    def _stream(self, session: ScheduledSession) -> LineStream:
        _, _, chunks, dues_s = self._speeches[session.utterance]
        stream = LineStream(session.begin_s, dues_s, chunks, self._engine.open)
        if self._one_stream:
            lent: list[StreamingEngine] = []

            def open_own() -> Any:
                lent.append(self._free.pop() if self._free else make_streaming(self._spec))
                return lent[0].open()

            stream.open, stream.close = open_own, lambda: self._free.extend(lent)
        return stream

    def _make_free(self, count: int) -> None:
        """Have as many engines as streams are open at a time, before any of them is timed."""
        while len(self._free) < count:
            self._free.append(make_streaming(self._spec))

    def _warm_up(self) -> None:
        _, _, chunks, _ = self._speeches[0]
        session = self._engine.open()
        for samples in chunks[: max(1, round(WARM_UP_AUDIO_S / self._chunk_s))]:
            if samples is not None:
                session.push(samples)
        session.finish()

    def _facts(self, stream: LineStream, session: ScheduledSession) -> dict[str, Any]:
        utterance, audio, _, _ = self._speeches[session.utterance]
        facts = {
            "utterance": utterance,
            "begin_s": session.begin_s,
            "part": session.part,
            "over": stream.over,
            "failure": ["error", stream.failure] if stream.failure else None,
        }
        if session.part != "steady":
            return facts
        lookahead_s = self._engine.info.lookahead_s
        trace = stream.trace.trace(audio.duration_s, self._chunk_s, lookahead_s).to_json() if len(stream.trace) else {}
        return {**facts, "trace": trace}


def _most_open(sessions: Sequence[ScheduledSession], lengths_s: Sequence[float]) -> int:
    """How many sessions speak at one time at the most."""
    events = sorted(
        event
        for session in sessions
        for event in ((session.begin_s, 1), (session.begin_s + lengths_s[session.utterance], -1))
    )
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most
