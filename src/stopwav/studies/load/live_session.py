"""One session through a server, driven by a scheduler: it never waits, and notes when everything happened."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stopwav.servers.protocol import Connection, Server, ServerError
from stopwav.speech.events import RemoteFacts, remote_trace

# What closing may take: the session is over, and nobody waits for it.
CLOSE_LIMIT_S = 2.0
# A ping that takes longer says nothing of the network.
PING_LIMIT_S = 2.0
NS = 1_000_000_000


@dataclass(frozen=True)
class Speech:
    """An utterance ready to be sent: its encoded chunks, when each is due, with the end of the audio as the last."""

    id: str
    messages: Sequence[Any]
    due_s: Sequence[float]
    audio_s: float


@dataclass
class LiveSession:
    """A session: `step` is called whenever its next chunk is due, and everything else comes from the server."""

    server: Server
    speech: Speech
    # When its first sample is spoken, by the clock of the server's events.
    begin_ns: int
    on_over: Callable[[], None]
    now_ns: Callable[[], int] = time.perf_counter_ns
    connection: Connection | None = None
    ready_ns: int | None = None
    sent_ns: list[int] = field(default_factory=list)
    # The longest time that a chunk waited in this client because the server did not read.
    held_ns: int = 0
    texts: list[tuple[float, str]] = field(default_factory=list)
    queue_s: list[float] = field(default_factory=list)
    endpoints_s: list[float] = field(default_factory=list)
    round_trip_s: float | None = None
    failure: ServerError | None = None
    # Whether the server has said everything, or the session failed.
    over: bool = False
    # How many chunks are due by now, the end included.
    _due: int = 0
    _held: deque[tuple[int, Any]] = field(default_factory=deque)
    _writer: asyncio.Task[None] | None = None
    _life: asyncio.Task[None] | None = None

    def step(self, now_ns: int) -> int | None:
        """Do what is due, and return when the next step is; None after the end of the audio, or once it is over."""
        if self.over:
            return None
        if self._life is None:
            self._life = asyncio.create_task(self._live())
        else:
            self._due += 1
            if self.ready_ns is not None:
                self._offer(now_ns)
        if self._due == len(self.speech.due_s):
            return None
        return self.begin_ns + round(self.speech.due_s[self._due] * NS)

    async def cut(self) -> None:
        """End the session, whatever its state."""
        tasks = [task for task in (self._life, self._writer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def to_json(self, chunk_s: float, lookahead_s: float) -> dict[str, Any]:
        """Return what happened as plain values, in seconds since the first sample was spoken."""
        sent_s = [(at_ns - self.begin_ns) / NS for at_ns in self.sent_ns]
        due_s = self.speech.due_s[: len(sent_s)]
        network_s = None if self.round_trip_s is None else self.round_trip_s / 2
        remote = RemoteFacts(network_s, tuple(self.queue_s) if any(self.queue_s) else ())
        lengths_s = self.speech.audio_s, chunk_s, lookahead_s
        trace = remote_trace(lengths_s, due_s, sent_s, self.texts, self.endpoints_s, remote).to_json() if sent_s else {}
        failure = self.failure
        return {
            "ready_s": None if self.ready_ns is None else (self.ready_ns - self.begin_ns) / NS,
            "held_s": self.held_ns / NS,
            "over": self.over,
            "failure": None if failure is None else [failure.reason, str(failure)],
            "trace": trace,
        }

    def _offer(self, now_ns: int) -> None:
        """Hand all chunks that are due to the operating system, or to a buffer of ours if it takes no more."""
        assert self.connection is not None
        send_now: Callable[[Any], bool] | None = getattr(self.connection, "send_now", None)
        while len(self.sent_ns) < self._due:
            position = len(self.sent_ns)
            self.sent_ns.append(max(now_ns, self.begin_ns + round(self.speech.due_s[position] * NS)))
            message = None if position == len(self.speech.messages) else self.speech.messages[position]
            if message is None or send_now is None or self._writer is not None or not send_now(message):
                self._held.append((now_ns, message))
        if self._held and self._writer is None:
            self._writer = asyncio.create_task(self._write_held())

    async def _write_held(self) -> None:
        assert self.connection is not None
        # What the server says of the reason of a failure comes in; that nothing can be sent is only what follows.
        with contextlib.suppress(ServerError):
            while self._held:
                since_ns, message = self._held.popleft()
                try:
                    await (self.connection.end() if message is None else self.connection.send(message))
                finally:
                    # Also of a chunk that still waited when the session was cut.
                    self.held_ns = max(self.held_ns, self.now_ns() - since_ns)
        self._writer = None

    async def _live(self) -> None:
        try:
            self.connection = await self.server.connect()
            self.ready_ns = self.now_ns()
            # What was due before is sent at once: behind the ping it would wait for the server, and count as our delay.
            self._offer(self.ready_ns)
            await self._ping()
            await self._read()
            if len(self.sent_ns) < len(self.speech.due_s):
                raise ServerError("closed", "the server ended the stream before the audio had ended")
            self.over = True
        except ServerError as error:
            self.failure, self.over = error, True
        except Exception as error:  # a mistake of an adapter must not pass for a server that never answers
            self.failure, self.over = ServerError("error", f"{type(error).__name__}: {error}"), True
        finally:
            if self.connection is not None:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(CLOSE_LIMIT_S):
                        await self.connection.close()
            self.on_over()

    async def _read(self) -> None:
        assert self.connection is not None
        async for event in self.connection.events():
            at_s = (event.at_ns - self.begin_ns) / NS
            if event.text is not None:
                self.texts.append((at_s, event.text))
                self.queue_s.append(float(event.parts.get("queue", 0.0)))
            if event.endpoint:
                self.endpoints_s.append(at_s)

    async def _ping(self) -> None:
        assert self.connection is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_LIMIT_S):
                self.round_trip_s = await self.connection.ping()
