"""Vosk's WebSocket protocol: a reply to every chunk, the partial of the current segment or a final one with words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, ServerError, ServerEvent, server_info
from stopwav.servers.segments import SegmentedText
from stopwav.servers.websocket import WebSocket, open_websocket, websocket_address

SAMPLE_RATE_HZ = 16_000
# The server compares the whole message with this text, blanks included.
END = '{"eof" : 1}'


class VoskServer:
    """A server that speaks Vosk's protocol, at `ws://` or `wss://`."""

    def __init__(self, address: str, rate: int = SAMPLE_RATE_HZ) -> None:
        self._address, self._rate = websocket_address("vosk-server", address), rate
        self.info = server_info("vosk-server", rate)
        self.capabilities = Capabilities(word_times=True, endpoints=True)

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as 16-bit integers."""
        return int16_bytes(samples)

    async def connect(self) -> VoskConnection:
        """Open a stream and tell the sampling rate."""
        socket = await open_websocket("vosk-server", self._address)
        try:
            await socket.send(json.dumps({"config": {"sample_rate": self._rate}}))
        except ServerError:
            await socket.close()
            raise
        return VoskConnection(socket)


class VoskConnection:
    """One stream: it ends with the final text that answers the end of the audio."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._ended = socket, False
        # Every chunk has one reply, and so has the end: with more to come, a final text is an endpoint.
        self._awaited = 0

    async def send(self, message: bytes) -> None:
        """Send a chunk."""
        self._awaited += 1
        await self._socket.send(message)

    def send_now(self, message: bytes) -> bool:
        """Send a chunk unless that means to wait."""
        sent = self._socket.send_now(message)
        self._awaited += sent
        return sent

    async def end(self) -> None:
        """Say that there is no more audio."""
        self._ended = True
        self._awaited += 1
        await self._socket.send(END)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text after every reply; a final one before the end of the audio is an endpoint."""
        segments, is_first, is_final = SegmentedText(), True, False
        async for at_ns, message in self._socket.messages():
            # Vosk's server in C++ answers the rate as well, as if it were audio, and text messages with binary ones.
            self._awaited += is_first and isinstance(message, bytes)
            is_first = False
            reply = self._socket.parse(message, binary=True)
            final, partial = _final_text(reply), reply.get("partial")
            is_final = final is not None
            self._awaited -= 1
            last = is_final and self._ended and self._awaited <= 0
            if final is not None:
                yield ServerEvent(at_ns, segments.commit(final), endpoint=not last and bool(final.strip()))
            elif isinstance(partial, str):
                yield ServerEvent(at_ns, segments.change(partial))
            else:
                raise self._socket.garbage(message)
            if last:
                return
        # A server that does not reply to every chunk ends with its final text all the same.
        if not (self._ended and is_final):
            raise self._socket.closed_early()

    async def ping(self) -> float | None:
        """Return the seconds of a round trip."""
        return await self._socket.ping()

    @property
    def socket(self) -> WebSocket:
        """The WebSocket, for a client that misbehaves."""
        return self._socket

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()


def _final_text(reply: dict[str, Any]) -> str | None:
    """The text of a final reply, the best one where the server is set to send alternatives; None in a partial one."""
    alternatives = reply.get("alternatives")
    if isinstance(alternatives, list) and alternatives and isinstance(alternatives[0], dict):
        reply = alternatives[0]
    text = reply.get("text")
    return text if isinstance(text, str) else None
