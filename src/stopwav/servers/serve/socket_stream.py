"""A client's stream over a WebSocket: messages in, replies out, and its end by a code, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import WebSocketError, WSMsgType, web

from stopwav.servers.serve.engine_stream import EngineStream
from stopwav.servers.serve.failure import StreamEnd, StreamFailure, StreamRefused
from stopwav.servers.serve.intake import HIGHEST_RATE_HZ, LOWEST_RATE_HZ, SAMPLE_BYTES, SampleFormat
from stopwav.servers.serve.options import ServedProtocol
from stopwav.servers.serve.service import Service, refusal_headers, refusal_status
from stopwav.speech.events import Hypothesis

# Two minutes of 16-bit audio at 16 kHz; clients send tenths of a second.
LARGEST_MESSAGE_BYTES = 4 * 2**20
# A message beyond this is not read at all, and its sender, who is still sending, may see a reset in place of a code.
# One that is only somewhat too large is read and dropped, so that the code arrives.
LARGEST_READ_BYTES = 2 * LARGEST_MESSAGE_BYTES
# A client that is told that its stream is over answers at once or is gone.
FAREWELL_S = 2.0

_GONE = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


@dataclass(frozen=True)
class SocketStream:
    """An accepted stream: its WebSocket and its place in a worker."""

    service: Service
    protocol: ServedProtocol
    request: web.Request
    socket: web.WebSocketResponse
    stream: EngineStream

    async def messages(self) -> AsyncIterator[bytes | str]:
        """Yield what the client sends; raise StreamFailure where it goes away, is silent for too long, or must end.

        Nothing is read ahead: while a message is worked on, the socket fills up and the client has to wait.
        """
        limit_s = self.service.options.idle_limit_s
        while True:
            receive = asyncio.ensure_future(self.socket.receive())
            try:
                waited: set[asyncio.Future[Any]] = {receive, self.stream.ended}
                await asyncio.wait(waited, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not receive.done():
                    receive.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await receive
            if self.stream.ended.done():
                raise self.stream.ended.result()
            if receive.cancelled():
                raise StreamFailure("idle", f"no message for {limit_s:g} s")
            yield _content(receive.result())

    async def push(self, data: bytes, sample_format: SampleFormat, rate_hz: int) -> list[Hypothesis]:
        """Have audio recognised and counted."""
        begin_s = time.perf_counter()
        hypotheses = await self.stream.push(data, sample_format, rate_hz)
        audio_s = len(data) / SAMPLE_BYTES[sample_format] / rate_hz
        self.service.metrics.hear(self.protocol, audio_s, time.perf_counter() - begin_s)
        return hypotheses

    async def finish(self) -> Sequence[Hypothesis]:
        """Have the last audio recognised."""
        return await self.stream.finish()

    async def reply(self, message: dict[str, Any] | str) -> None:
        """Send a message; raise StreamFailure where the client is gone, or does not read for too long."""
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        limit_s = self.service.options.idle_limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self.socket.send_str(text)
        except TimeoutError:
            raise StreamFailure("stalled", f"the client read nothing for {limit_s:g} s") from None
        except (ConnectionError, RuntimeError):
            raise _disconnected() from None


Conversation = Callable[[SocketStream], Awaitable[None]]
Farewell = Callable[[SocketStream, StreamFailure], Awaitable[None]]


async def serve_socket(
    request: web.Request,
    service: Service,
    protocol: ServedProtocol,
    converse: Conversation,
    farewell: Farewell | None = None,
) -> web.StreamResponse:
    """Accept a WebSocket, hold the protocol's conversation on it, and close it with the code of how it ended.

    `farewell` says in the protocol's own words that a stream failed.
    """
    socket = web.WebSocketResponse(
        max_msg_size=LARGEST_READ_BYTES,
        timeout=FAREWELL_S,
        compress=False,  # audio does not get smaller, and a small message could unfold into a large one
    )
    if not socket.can_prepare(request):
        raise web.HTTPBadRequest(text="this address speaks WebSocket\n")
    try:
        stream = service.admit(request, protocol)
    except StreamRefused as refusal:
        return web.json_response(
            {"error": str(refusal)}, status=refusal_status(refusal), headers=refusal_headers(refusal)
        )
    opened = SocketStream(service, protocol, request, socket, stream)
    try:
        await socket.prepare(request)
        await converse(opened)
        await _close(opened, 1000, b"")
    except StreamFailure as failure:
        await _fail(opened, failure, farewell)
    except Exception:
        # Whatever it is, the client learns that it was not its doing, and the server goes on.
        await _fail(opened, StreamFailure("internal", "the server failed"), farewell)
    finally:
        stream.release()
    return socket


def read_rate(value: object) -> int:
    """Return a sampling rate that a client asks for; raise StreamFailure where it is not supported."""
    try:
        rate_hz = int(value) if isinstance(value, (int, float, str)) else 0
    except (ValueError, OverflowError):
        rate_hz = 0
    if not LOWEST_RATE_HZ <= rate_hz <= HIGHEST_RATE_HZ:
        message = f"sample_rate is not a number from {LOWEST_RATE_HZ} to {HIGHEST_RATE_HZ}"
        raise StreamFailure("garbage", message)
    return rate_hz


def _content(message: Any) -> bytes | str:
    if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
        content: bytes | str = message.data
        if len(content) > LARGEST_MESSAGE_BYTES:
            raise StreamFailure("too-large", f"a message has at most {LARGEST_MESSAGE_BYTES} bytes")
        return content
    if message.type in _GONE or not isinstance(message.data, WebSocketError):
        raise _disconnected()
    # The library has closed the connection with the code already.
    reason: StreamEnd = "too-large" if message.data.code == 1009 else "garbage"
    raise StreamFailure(reason, str(message.data))


def _disconnected() -> StreamFailure:
    return StreamFailure("disconnected", "the client closed the connection before the end")


async def _fail(opened: SocketStream, failure: StreamFailure, farewell: Farewell | None) -> None:
    opened.service.metrics.fail(opened.protocol, failure.reason)
    if not opened.socket.prepared or opened.socket.closed:
        return
    if farewell is not None and failure.reason not in ("disconnected", "stalled"):
        with contextlib.suppress(StreamFailure, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await farewell(opened, failure)
    await _close(opened, failure.close_code, failure.close_message)


async def _close(opened: SocketStream, code: int, message: bytes) -> None:
    """Close the connection; abruptly where the client does not take part."""
    transport = opened.request.transport
    try:
        async with asyncio.timeout(2 * FAREWELL_S):
            await opened.socket.close(code=code, message=message)
    except (TimeoutError, ConnectionError, RuntimeError):
        pass
    except asyncio.CancelledError:
        # The library has one wait for a client that does not read: once a limit cancelled it, so is every later one.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
    finally:
        if transport is not None and (not transport.is_closing() or transport.get_write_buffer_size()):
            transport.abort()
