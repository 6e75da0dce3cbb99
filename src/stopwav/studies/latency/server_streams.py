"""Streams through a server: the client in a process of its own, as an engine has one, fed by the clock."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.clock import Pace
from stopwav.measure.plan import Plan
from stopwav.servers.protocol import Server
from stopwav.servers.registry import make_server
from stopwav.speech.audio import load
from stopwav.speech.utterance import Utterance
from stopwav.studies.paced_session import SessionLog, run_session

# The memory of a client is not that of the recogniser.
NO_MEMORY = "a server's memory is not visible to its client"


class ServerRunner:
    """The client of one server. Each method returns plain values, ready for the run file, as a StreamRunner's does."""

    def __init__(self, server: str, chunk_ms: float | None) -> None:
        self._server: Server = make_server(server)
        self._runner = asyncio.Runner()
        begin_s = time.perf_counter()
        # A server that is not there is known now.
        self._runner.run(self._reach())
        self._load_s = time.perf_counter() - begin_s
        self._chunk_s = self._server.info.chunk_s if chunk_ms is None else chunk_ms / 1e3

    def stream(self, utterance: Utterance, pace: Pace) -> dict[str, Any]:
        """Return the trace of one stream and, where the server failed in it, the reason."""
        return self.streams([utterance])[0]

    def streams(self, utterances: Sequence[Utterance]) -> list[dict[str, Any]]:
        """Return the same of several streams at a time; they begin one after the other within a chunk."""
        prepared = [self._prepare(utterance) for utterance in utterances]
        gc.collect()
        return self._runner.run(self._stream_all(prepared))

    def warm_up(self, utterance: Utterance, plan: Plan, min_streams: int) -> dict[str, Any]:
        """Stream an utterance once more, and return the description of the server with what that took."""
        begin_s = time.perf_counter()
        self.stream(utterance, "real")
        return {
            "engine": self._server.info.to_json(),
            "languages": list(self._server.capabilities.languages),
            "load_s": self._load_s,
            "warmup_s": [time.perf_counter() - begin_s],
            "cautions": [],
        }

    async def _reach(self) -> None:
        connection = await self._server.connect()
        await connection.close()

    def _prepare(self, utterance: Utterance) -> tuple[list[Any], list[float], float]:
        """The chunks as they are sent, when each is due, and the length of the audio."""
        info = self._server.info
        audio = load(utterance.path, info.sample_rate_hz, utterance.start_s, utterance.end_s)
        size = max(1, round(self._chunk_s * audio.sample_rate_hz))
        starts = range(0, len(audio.samples), size)
        dues_s = [min(start + size, len(audio.samples)) / audio.sample_rate_hz for start in starts]
        messages = [self._server.encode(audio.samples[start : start + size]) for start in starts]
        return messages, [*dues_s, audio.duration_s], audio.duration_s

    async def _stream_all(self, prepared: Sequence[tuple[list[Any], list[float], float]]) -> list[dict[str, Any]]:
        # In step they would all be due at the same moments, as callers never are.
        step_s = self._chunk_s / len(prepared)
        logs = await asyncio.gather(
            *(
                run_session(self._server, messages, dues_s, place * step_s)
                for place, (messages, dues_s, _) in enumerate(prepared)
            )
        )
        return [self._result(log, audio_s) for log, (_, _, audio_s) in zip(logs, prepared, strict=True)]

    def _result(self, log: SessionLog, audio_s: float) -> dict[str, Any]:
        failure = ""
        if log.failure is not None:
            failure = f"{log.failure.reason}: {log.failure}"
        elif not log.sent_s:
            raise StopwavError("the utterance has no audio")
        trace = log.trace(audio_s, self._chunk_s, self._server.info.lookahead_s) if log.sent_s else None
        return {"trace": {} if trace is None else trace.to_json(), "failure": failure}
