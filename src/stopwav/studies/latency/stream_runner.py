"""One engine in a process of its own, fed one utterance at a time.

The process imports this file, and nothing that only the run needs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from stopwav.engines.protocol import Session, StreamingEngine
from stopwav.engines.registry import make_streaming
from stopwav.errors import Caution, StopwavError
from stopwav.measure.clock import Pace, PacedCall, WallClock, feed
from stopwav.measure.float32_products import engine_precision
from stopwav.measure.memory import host_baseline_bytes, measure_host_peak
from stopwav.measure.plan import Plan
from stopwav.measure.process import describe_error, is_out_of_memory
from stopwav.measure.sampler import warm_up
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.events import TraceBuilder
from stopwav.speech.utterance import Utterance
from stopwav.studies.engine_calls import chunk_of, returned_texts


class StreamRunner:
    """One engine in its process. Each method returns plain values, ready for the run file."""

    def __init__(self, engine: str, chunk_ms: float | None) -> None:
        self._clock = WallClock()
        loaded = self._clock.time(lambda: make_streaming(engine))
        self._engine: StreamingEngine = loaded.result
        self._load_s = loaded.wall_s
        self._loaded_bytes = host_baseline_bytes()
        info = self._engine.info
        self._precision = engine_precision(engine, info.precision)
        self._precision.hold("after the engine was loaded")
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
        self._precision.check()
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
        # What is imported at the first call may change the precision; what changes it again later is an error.
        self._precision.hold("after the warm-up")
        return {
            "engine": self._engine.info.to_json(),
            "load_s": self._load_s,
            "warmup_s": list(warmup_s),
            "cautions": [*self._precision.said(), *([warning.code, warning.message] for warning in warnings)],
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
