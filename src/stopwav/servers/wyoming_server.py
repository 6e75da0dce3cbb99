"""The Wyoming protocol over TCP: events as lines of JSON with bytes behind them, and one transcript per stream."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, ServerError, ServerEvent, server_info
from stopwav.servers.websocket import CLOSE_LIMIT_S, LONGEST_MESSAGE_BYTES, OPEN_LIMIT_S, brief, garbage, parse_object

NAME = "wyoming"
SAMPLE_RATE_HZ = 16_000
# Bytes of a sample, and channels.
WIDTH, CHANNELS = 2, 1
# For whoever says that the audio has ended to return first: it is not the server that ended the stream then.
HANDOVER_S = 0.01


class WyomingServer:
    """A server that speaks Wyoming, at `tcp://HOST:PORT`."""

    def __init__(self, address: str, model: str = "", language: str = "", rate: int = SAMPLE_RATE_HZ) -> None:
        self._host, self._port = _host_and_port(address)
        self._model, self._language, self._rate = str(model), str(language), rate
        self.info = server_info(NAME, rate, self._model, self._language)
        # Most servers send the final text only: that one sends more is known once it does.
        self.capabilities = Capabilities(partials=False)

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as an event with 16-bit integers."""
        from wyoming.audio import AudioChunk

        return _event_bytes(AudioChunk(rate=self._rate, width=WIDTH, channels=CHANNELS, audio=int16_bytes(samples)))

    async def connect(self) -> WyomingConnection:
        """Open a stream: ask for a transcript, and say which audio follows."""
        from wyoming.asr import Transcribe
        from wyoming.audio import AudioStart

        address = f"tcp://{self._host}:{self._port}"
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                streams = await asyncio.open_connection(self._host, self._port, limit=LONGEST_MESSAGE_BYTES)
        except TimeoutError:
            raise ServerError("stalled", f"{NAME}: {address} did not answer within {OPEN_LIMIT_S:g} s") from None
        except (OSError, ValueError) as error:  # a ValueError is a host name that cannot be one
            reason = brief(getattr(error, "strerror", None) or str(error))
            message = f"{NAME}: cannot connect to {address} ({reason}); is the server running?"
            raise ServerError("refused", message) from None
        connection = WyomingConnection(*streams, self)
        request = Transcribe(name=self._model or None, language=self._language or None)
        start = AudioStart(rate=self._rate, width=WIDTH, channels=CHANNELS)
        try:
            await connection.send(_event_bytes(request) + _event_bytes(start))
        except ServerError:
            await connection.close()
            raise
        return connection

    def note(self, partials: bool = False, endpoints: bool = False) -> None:
        """Note that the server has what not every server of the protocol has."""
        known = self.capabilities
        self.capabilities = dataclasses.replace(
            known, partials=known.partials or partials, endpoints=known.endpoints or endpoints
        )


class WyomingConnection:
    """One stream: it ends with the transcript or, where that comes in pieces, with the end of these."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: WyomingServer) -> None:
        self._reader, self._writer, self._server = reader, writer, server
        self._ended, self._is_complete = asyncio.Event(), False

    async def send(self, message: bytes) -> None:
        """Send a chunk; one after the transcript is of no use to the server, which may have closed by then."""
        if self._is_complete:
            return
        try:
            self._writer.write(message)
            await self._writer.drain()
        except (OSError, RuntimeError):  # a RuntimeError is a transport that is closing
            raise _lost() from None

    async def end(self) -> None:
        """Say that there is no more audio."""
        from wyoming.audio import AudioStop

        self._ended.set()
        await self.send(_event_bytes(AudioStop()))

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text after every event that brings some; one before the end of the audio is also an endpoint."""
        from wyoming.asr import Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
        from wyoming.error import Error
        from wyoming.vad import VoiceStopped

        text = ""
        while not self._is_complete:
            event = await _read_event(self._reader)
            if event is None:
                raise _lost()
            at_ns, kind, data = event
            # Either says that the text is whole: some servers send both, and others one of them.
            self._is_complete = Transcript.is_type(kind) or TranscriptStop.is_type(kind)
            if Error.is_type(kind):
                raise _stated_error(data)
            if VoiceStopped.is_type(kind):
                yield self._event(at_ns, None)
            elif TranscriptStart.is_type(kind):
                self._server.note(partials=True)
            elif TranscriptChunk.is_type(kind):
                text += _text(data)
                yield ServerEvent(at_ns, text.strip())
            elif Transcript.is_type(kind):
                yield self._event(at_ns, _text(data).strip())
        # The stream is over when the client has said so, as with every other protocol.
        await self._ended.wait()
        await asyncio.sleep(HANDOVER_S)

    def _event(self, at_ns: int, text: str | None) -> ServerEvent:
        """An event that ends the utterance. Before the end of the audio, the server has found that by itself."""
        is_endpoint = not self._ended.is_set()
        if is_endpoint:
            self._server.note(endpoints=True)
        return ServerEvent(at_ns, text, endpoint=is_endpoint)

    async def ping(self) -> float | None:
        """Return None: a ping is an event like any other, which most servers do not answer."""
        return None

    async def close(self) -> None:
        """Close the connection, whatever its state."""
        self._ended.set()
        self._writer.close()
        # In a task of its own: one that is cancelled would take the stream's future with it.
        closing = asyncio.ensure_future(self._writer.wait_closed())
        await asyncio.wait({closing}, timeout=CLOSE_LIMIT_S)
        self._writer.transport.abort()
        await asyncio.gather(closing, return_exceptions=True)


async def _read_event(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, Any]] | None:
    """Return the next event as its time, type and data, and None at the end; what is behind the data is dropped.

    The package's own function returns None for garbage as well, and takes lengths and types as they come.
    """
    try:
        line = await reader.readline()
        at_ns = time.perf_counter_ns()
        if not line:
            return None
        if not line.endswith(b"\n"):
            raise _lost()
        header = parse_object(NAME, line)
        kind, data = header.get("type"), header.get("data") or {}
        lengths = [header.get(name) or 0 for name in ("data_length", "payload_length")]
        if not (isinstance(kind, str) and isinstance(data, dict) and all(map(_is_length, lengths))):
            raise garbage(NAME, line)
        for length, is_data in zip(lengths, (True, False), strict=True):
            if length:
                content = await reader.readexactly(length)
                at_ns = time.perf_counter_ns()
                data = {**data, **parse_object(NAME, content)} if is_data else data
    except ValueError:
        raise ServerError("garbage", f"{NAME}: the server sent a line that is longer than any transcript") from None
    except (OSError, EOFError):
        raise _lost() from None
    return at_ns, kind, data


def _event_bytes(event: Any) -> bytes:
    """An event as it is sent."""
    from wyoming.event import write_event

    buffer = io.BytesIO()
    write_event(event.event(), buffer)
    return buffer.getvalue()


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONGEST_MESSAGE_BYTES


def _text(data: dict[str, Any]) -> str:
    if not isinstance(data.get("text"), str):
        raise garbage(NAME, repr(data)[:1000])
    return str(data["text"])


def _stated_error(data: dict[str, Any]) -> ServerError:
    text, code = data.get("text"), data.get("code")
    stated = text if isinstance(text, str) and text else "an error without a message"
    return ServerError(
        "error", f"{NAME}: the server says: {brief(stated)}" + (f" ({brief(str(code))})" if code else "")
    )


def _lost() -> ServerError:
    return ServerError("closed", f"{NAME}: the connection ended before the text was complete")


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        if parts.scheme == "tcp" and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:  # such as a port of six digits
        pass
    raise StopwavError(f"{NAME}: {address!r} is not an address such as tcp://HOST:PORT")
