"""One stream through a server: chunks sent by an absolute schedule, and what comes in, with the times of both.

The schedule is that of speech: a chunk is sent when its last sample would have been spoken, however late those before
it were and whatever the server does. How late each was sent is kept: a delay of ours must not pass for the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from stopwav.servers.protocol import Connection, Server, ServerError
from stopwav.speech.events import RemoteFacts, Trace, remote_trace

# A server that sends nothing for so long after the end of the audio will send nothing more.
STALL_S = 15.0
# Round trips that are measured before the audio, and then one in so many seconds.
FIRST_PINGS, PING_EVERY_S = 3, 1.0
# A ping that takes longer says nothing of the network.
PING_LIMIT_S = 2.0
# What closing may take: the stream is over, and the next one waits.
CLOSE_LIMIT_S = 2.0


@dataclass
class SessionLog:
    """What happened in a stream, in seconds since its first sample was spoken; `failure` says why it did not end."""

    due_s: Sequence[float]
    sent_s: list[float] = field(default_factory=list)
    texts: list[tuple[float, str]] = field(default_factory=list)
    # The queue that the server reports with each text; 0 where it does not.
    queue_s: list[float] = field(default_factory=list)
    endpoints_s: list[float] = field(default_factory=list)
    round_trips_s: list[float] = field(default_factory=list)
    failure: ServerError | None = None
    last_event_ns: int = 0

    def trace(self, audio_s: float, chunk_s: float, lookahead_s: float) -> Trace:
        """Return the trace of what was sent and came in."""
        network_s = median(self.round_trips_s) / 2 if self.round_trips_s else None
        remote = RemoteFacts(network_s, tuple(self.queue_s) if any(self.queue_s) else ())
        sent = len(self.sent_s)
        lengths_s = audio_s, chunk_s, lookahead_s
        return remote_trace(lengths_s, self.due_s[:sent], self.sent_s, self.texts, self.endpoints_s, remote)


async def run_session(
    server: Server, messages: Sequence[Any], due_s: Sequence[float], delay_s: float = 0.0, stall_s: float = STALL_S
) -> SessionLog:
    """Stream encoded chunks at the times at which they are due, and return what happened; the last due time is the end.

    The first sample is spoken `delay_s` after the connection is there. Whatever a server does is in the log.
    """
    log = SessionLog(due_s)
    connection: Connection | None = None
    try:
        connection = await server.connect()
        for _ in range(FIRST_PINGS):
            await _ping(connection, log)
        origin_ns = time.perf_counter_ns() + round(delay_s * 1e9)
        await _stream(connection, messages, origin_ns, log, stall_s)
    except ServerError as error:
        log.failure = error
    finally:
        if connection is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_LIMIT_S):
                    await connection.close()
    return log


async def _stream(
    connection: Connection, messages: Sequence[Any], origin_ns: int, log: SessionLog, stall_s: float
) -> None:
    """Send and receive at the same time, until the server has said everything."""
    reader = asyncio.create_task(_read(connection, origin_ns, log))
    sender = asyncio.create_task(_send(connection, messages, origin_ns, log))
    pinger = asyncio.create_task(_ping_now_and_then(connection, log))
    try:
        await asyncio.wait({reader, sender}, return_when=asyncio.FIRST_COMPLETED)
        if reader.done() and not sender.done():
            # What the server says of the reason comes in; that nothing can be sent any more is only what follows.
            await reader
            raise ServerError("closed", "the server ended the stream before the audio had ended")
        with contextlib.suppress(ServerError):
            await sender
        await _await_last_text(reader, sender, log, stall_s)
    finally:
        for task in (reader, sender, pinger):
            task.cancel()
        await asyncio.gather(reader, sender, pinger, return_exceptions=True)


async def _await_last_text(
    reader: asyncio.Task[None], sender: asyncio.Task[None], log: SessionLog, stall_s: float
) -> None:
    """Wait until the server has said everything; raise where it says nothing for too long."""
    ended_ns = time.perf_counter_ns()
    while not reader.done():
        idle_s = (time.perf_counter_ns() - max(ended_ns, log.last_event_ns)) / 1e9
        if idle_s >= stall_s:
            raise sender.exception() or ServerError(
                "stalled", f"no final text: the server sent nothing for {stall_s:g} s after the end of the audio"
            )
        await asyncio.wait({reader}, timeout=stall_s - idle_s)
    await reader
    if (failure := sender.exception()) is not None:
        raise failure


async def _send(connection: Connection, messages: Sequence[Any], origin_ns: int, log: SessionLog) -> None:
    """Send each chunk when it is due, then the end."""
    for due_s, message in zip(log.due_s, [*messages, None], strict=True):
        # Absolute times: a late chunk does not delay the ones after it.
        await asyncio.sleep(max(0.0, (origin_ns - time.perf_counter_ns()) / 1e9 + due_s))
        log.sent_s.append(max(due_s, (time.perf_counter_ns() - origin_ns) / 1e9))
        await (connection.end() if message is None else connection.send(message))


async def _read(connection: Connection, origin_ns: int, log: SessionLog) -> None:
    async for event in connection.events():
        at_s = (event.at_ns - origin_ns) / 1e9
        log.last_event_ns = event.at_ns
        if event.text is not None:
            log.texts.append((at_s, event.text))
            log.queue_s.append(float(event.parts.get("queue", 0.0)))
        if event.endpoint:
            log.endpoints_s.append(at_s)


async def _ping_now_and_then(connection: Connection, log: SessionLog) -> None:
    while True:
        await asyncio.sleep(PING_EVERY_S)
        await _ping(connection, log)


async def _ping(connection: Connection, log: SessionLog) -> None:
    # Not by wait_for, which loses a cancellation that comes together with the answer.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PING_LIMIT_S):
            round_trip_s = await connection.ping()
        if round_trip_s is not None:
            log.round_trips_s.append(round_trip_s)
