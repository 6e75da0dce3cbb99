"""A server in memory with one worker, in an event loop of virtual time: each chunk takes what a test says."""

import asyncio
from collections import deque

from stopwav.servers.protocol import Capabilities, ServerError, ServerEvent, server_info

RATE_HZ = 16_000


class ScriptedServer:
    """Chunks of all streams are one queue; the text of a stream after each says how many of its chunks are done."""

    def __init__(self, loop, services=(), then=0.0, connection=None):
        self.loop, self._services, self._then = loop, iter(services), then
        self.info = server_info("scripted", RATE_HZ)
        self.capabilities = Capabilities()
        self._connection = connection or ScriptedConnection
        self._queue, self._worker = deque(), None
        self.opened = []

    def encode(self, samples):
        return len(samples)

    async def connect(self):
        self.opened.append(self._connection(self))
        await self.opened[-1].accept()
        return self.opened[-1]

    def put(self, connection, message):
        self._queue.append((connection, message))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())

    async def _work(self):
        while self._queue:
            connection, message = self._queue.popleft()
            if message is not None:
                await asyncio.sleep(next(self._services, self._then))
            connection.done(message)
        self._worker = None


class ScriptedConnection:
    """One stream, which is well-behaved; others are classes of the tests that need them."""

    def __init__(self, server):
        self._server = server
        self._events, self._count = asyncio.Queue(), 0
        self.sent_s, self.closed = [], False

    async def accept(self):
        """What happens until the server has accepted the stream."""

    def send_now(self, message):
        self.sent_s.append(self._server.loop.time())
        self._server.put(self, message)
        return True

    async def send(self, message):
        self.send_now(message)

    async def end(self):
        self._server.put(self, None)

    def done(self, message):
        """A chunk is done, or the end."""
        self._count += message is not None
        self.say(" ".join(["a"] * self._count))
        if message is None:
            self.stop()

    def say(self, text):
        self._events.put_nowait(ServerEvent(self._server.loop.now_ns(), text))

    def stop(self):
        self._events.put_nowait(None)

    def fail(self, reason, message):
        self._events.put_nowait(ServerError(reason, message))

    async def events(self):
        while (event := await self._events.get()) is not None:
            if isinstance(event, ServerError):
                raise event
            yield event

    async def ping(self):
        return 0.002

    async def close(self):
        self.closed = True
