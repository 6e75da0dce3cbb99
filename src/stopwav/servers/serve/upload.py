"""Whole files that clients upload: read within limits, recognised at once or chunk by chunk."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

from aiohttp import web

from stopwav.servers.serve.engine_stream import EngineStream
from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.options import ServedProtocol
from stopwav.servers.serve.service import Service
from stopwav.speech.events import Hypothesis

# OpenAI's own limit.
LARGEST_FILE_BYTES = 25 * 2**20
_READ_BYTES = 2**16


@dataclass(frozen=True)
class RecognisedFile:
    """The text of a file, and its length."""

    text: str
    duration_s: float


@contextlib.contextmanager
def uploaded_stream(request: web.Request, service: Service, protocol: ServedProtocol) -> Iterator[EngineStream]:
    """Give a place in a worker to an upload, and count how it ended."""
    stream = service.admit(request, protocol)
    try:
        yield stream
    except StreamFailure as failure:
        service.metrics.fail(protocol, failure.reason)
        raise
    except (ConnectionError, asyncio.CancelledError):
        service.metrics.fail(protocol, "disconnected")
        raise
    except Exception as error:
        service.metrics.fail(protocol, "internal")
        raise StreamFailure("internal", "the server failed") from error
    finally:
        stream.release()


async def read_body(request: web.Request, idle_limit_s: float) -> bytes:
    """Return the body of a request; raise StreamFailure where it is too large or does not come."""

    async def read() -> bytes:
        return await request.content.read(_READ_BYTES)

    return await gather_blocks(read, idle_limit_s)


async def gather_blocks(
    read: Callable[[], Awaitable[bytes]], idle_limit_s: float, limit_bytes: int = LARGEST_FILE_BYTES
) -> bytes:
    """Return all that a reader gives."""
    content = bytearray()
    while True:
        try:
            async with asyncio.timeout(idle_limit_s):
                block = await read()
        except TimeoutError:
            raise StreamFailure("idle", f"no data for {idle_limit_s:g} s") from None
        if not block:
            return bytes(content)
        content += block
        if len(content) > limit_bytes:
            raise StreamFailure("too-large", f"an upload has at most {limit_bytes} bytes")


async def recognise_file(
    request: web.Request, service: Service, protocol: ServedProtocol, stream: EngineStream, data: bytes
) -> RecognisedFile:
    """Return the text of a file: by the engine's own way for whole utterances where it has one."""
    begin_s = time.perf_counter()
    duration_s = await stream.load_file(data)
    if service.engine.offline:
        text = await stream.transcribe()
    else:
        text = ""
        async for hypothesis in stream_file(request, stream):
            text = hypothesis.text
    service.metrics.hear(protocol, duration_s, time.perf_counter() - begin_s)
    return RecognisedFile(text, duration_s)


async def stream_file(request: web.Request, stream: EngineStream) -> AsyncIterator[Hypothesis]:
    """Push a file that is loaded chunk by chunk, and yield every hypothesis."""
    while (hypotheses := await stream.advance()) is not None:
        for hypothesis in hypotheses:
            yield hypothesis
        if request.transport is None or request.transport.is_closing():
            # Nobody waits for the rest.
            raise StreamFailure("disconnected", "the client closed the connection before the end")
    for hypothesis in await stream.finish():
        yield hypothesis
