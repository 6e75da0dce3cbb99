"""Servers on loopback that say what a test has written for them, and a client that listens to the end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stopwav.servers.protocol import Connection, Server, ServerError, ServerEvent

RATE_HZ = 16_000
CHUNK = np.zeros(1_600, dtype=np.float32)
Handler = Callable[[Any], Awaitable[None]]


@contextlib.asynccontextmanager
async def websocket_server(handler: Handler, **settings: Any) -> AsyncIterator[str]:
    """Serve on a free port, and give the address."""
    from websockets.asyncio.server import serve

    async with serve(handler, "127.0.0.1", 0, compression=None, **settings) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"{'wss' if settings.get('ssl') else 'ws'}://127.0.0.1:{port}"
        server.close(close_connections=True)


@contextlib.asynccontextmanager
async def tcp_server(handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Any:
    """The same for a server without WebSocket; gives host and port."""
    tasks = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Script:
    """A WebSocket server that says some things at once, some after each chunk, and some after the end.

    A message that is no text is sent as JSON, bytes as they are. Then it closes with `code`, unless that is None.
    """

    at_once: Sequence[Any] = ()
    per_chunk: Sequence[Sequence[Any]] = ()
    at_end: Sequence[Any] = ()
    ends: tuple[str, ...] = ()
    code: int | None = 1000
    reason: str = ""
    # What came in, in order.
    heard: list[Any] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    path: str = ""

    async def __call__(self, connection: Any) -> None:
        self.headers, self.path = dict(connection.request.headers.raw_items()), connection.request.path
        await self._say(connection, self.at_once)
        chunks = 0
        async for message in connection:
            self.heard.append(message)
            if isinstance(message, bytes):
                await self._say(connection, self.per_chunk[chunks] if chunks < len(self.per_chunk) else ())
                chunks += 1
            if message in self.ends:
                await self._say(connection, self.at_end)
                break
        if self.code is None:
            await connection.wait_closed()
        else:
            await connection.close(self.code, self.reason)

    async def _say(self, connection: Any, messages: Sequence[Any]) -> None:
        for message in messages:
            await connection.send(message if isinstance(message, (str, bytes)) else json.dumps(message))


async def listen(server: Server, chunks: int = 2, between: Callable[[int], Awaitable[None]] | None = None) -> Any:
    """Stream some chunks, end, and return the events; raise what the stream raises."""
    connection = await server.connect()
    try:
        return await stream(server, connection, chunks, between)
    finally:
        await connection.close()


async def stream(
    server: Server, connection: Connection, chunks: int, between: Callable[[int], Awaitable[None]] | None = None
) -> list[ServerEvent]:
    """Send and receive at the same time. What the server says counts, not that nothing can be sent to it any more."""
    events: list[ServerEvent] = []

    async def read() -> None:
        async for event in connection.events():
            events.append(event)

    async def send() -> None:
        with contextlib.suppress(ServerError):
            for number in range(chunks):
                await connection.send(server.encode(CHUNK))
                # Replies come in before the next chunk is sent, as they do when someone speaks.
                await asyncio.sleep(0.01 if between is None else 0)
                if between is not None:
                    await between(number)
            await connection.end()

    async with asyncio.timeout(10):
        reader, sender = asyncio.create_task(read()), asyncio.create_task(send())
        try:
            await reader
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
    return events


def texts(events: Sequence[ServerEvent]) -> list[str | None]:
    """The texts of events."""
    return [event.text for event in events]


def endpoints(events: Sequence[ServerEvent]) -> list[bool]:
    """Which events say that the utterance is over."""
    return [event.endpoint for event in events]


async def failure(server: Server, chunks: int = 2) -> ServerError:
    """Return the error with which a stream ends; nothing else may come out of it."""
    try:
        events = await listen(server, chunks)
    except ServerError as error:
        return error
    raise AssertionError(f"it did not fail: {events}")


class FakeSocket:
    """A socket of the package websockets, as far as a client uses it, whose messages are all there already."""

    close_code, close_reason = 1000, ""

    def __init__(self, messages: Sequence[bytes | str]) -> None:
        self._messages = list(messages)

    async def recv(self) -> bytes | str:
        from websockets.exceptions import ConnectionClosedOK

        if not self._messages:
            raise ConnectionClosedOK(None, None)
        return self._messages.pop(0)

    async def send(self, message: bytes | str) -> None: ...

    async def close(self) -> None: ...


def listen_to(connection: Connection, chunks: int) -> list[ServerEvent] | ServerError:
    """Return what a connection on a fake socket yields after some chunks and the end, or the error it raises."""

    async def run() -> list[ServerEvent] | ServerError:
        for _ in range(chunks):
            await connection.send(b"\0\0" * 1_600)
        await connection.end()
        try:
            return [event async for event in connection.events()]
        except ServerError as error:
            return error

    return asyncio.run(run())
