"""The WebSocket servers of sherpa-onnx: online, with text for every chunk, and offline, with one answer at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.pcm import float32_bytes
from stopwav.servers.protocol import Capabilities, Connection, ServerError, ServerEvent, server_info
from stopwav.servers.segments import SegmentedText
from stopwav.servers.websocket import WebSocket, open_websocket, websocket_address

# The rate that the servers have unless they are started with another.
SAMPLE_RATE_HZ = 16_000
# From the client, and from the server once it has said everything.
END, ENDED = "Done", "Done!"
# Whole numbers that JSON and a float both hold exactly; no stream has more segments.
_LARGEST_SEGMENT = 2**53


class SherpaServer:
    """A server of sherpa-onnx at `ws://` or `wss://`; `mode` says which of its two protocols it speaks."""

    def __init__(self, address: str, mode: str = "online", rate: int = SAMPLE_RATE_HZ) -> None:
        if mode not in ("online", "offline"):
            raise StopwavError(f"sherpa-server: mode is online or offline, not {mode!r}")
        self._address, self._mode, self._rate = websocket_address("sherpa-server", address), mode, rate
        self.info = server_info("sherpa-server", rate)
        # An online server is never told the rate, so it takes the one it was started with and no other.
        self.capabilities = (
            Capabilities(endpoints=True, sample_rates_hz=(rate,)) if mode == "online" else Capabilities(partials=False)
        )

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as 32-bit floats."""
        return float32_bytes(samples)

    async def connect(self) -> Connection:
        """Open a stream."""
        socket = await open_websocket("sherpa-server", self._address)
        if self._mode == "online":
            return SherpaOnlineConnection(socket, self)
        return SherpaOfflineConnection(socket, self._rate)

    def note_no_finals(self) -> None:
        """Note that the server marks no text as final, so that it has no endpoints either."""
        self.capabilities = dataclasses.replace(self.capabilities, finals=False, endpoints=False)


class SherpaOnlineConnection:
    """One stream through an online server: the text of the current segment, again and again."""

    def __init__(self, socket: WebSocket, server: SherpaServer) -> None:
        self._socket, self._server = socket, server
        self._ended = self._answered = False

    async def send(self, message: bytes) -> None:
        """Send a chunk."""
        await self._socket.send(message)

    def send_now(self, message: bytes) -> bool:
        """Send a chunk unless that means to wait."""
        return self._socket.send_now(message)

    async def end(self) -> None:
        """Say that there is no more audio."""
        self._ended = True
        await self._socket.send(END)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text after every reply until the server says that there is no more."""
        segments = SegmentedText()
        async for at_ns, message in self._socket.messages():
            if message == ENDED and self._ended:
                return
            reply = self._socket.parse(message)
            text, segment, is_final = reply.get("text"), reply.get("segment", 0), reply.get("is_final", False)
            if not (isinstance(text, str) and _is_number(segment) and isinstance(is_final, bool)):
                raise self._socket.garbage(message)
            if "is_final" not in reply:
                self._server.note_no_finals()
            self._answered = self._ended
            # Also the answer to the end is final; newer servers tell it apart.
            is_answer = bool(reply["is_eof"]) if "is_eof" in reply else self._ended
            is_endpoint = is_final and not is_answer and bool(text.strip())
            yield ServerEvent(at_ns, segments.put(text, segment), endpoint=is_endpoint)
        # The server in Python closes after its last text, without a word.
        if not self._answered:
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


class SherpaOfflineConnection:
    """One utterance through an offline server, which takes it as a whole: chunks wait for the end of the audio."""

    def __init__(self, socket: WebSocket, rate: int) -> None:
        self._socket, self._rate = socket, rate
        self._chunks: list[bytes] = []

    async def send(self, message: bytes) -> None:
        """Keep a chunk until the audio ends."""
        self.send_now(message)

    def send_now(self, message: bytes) -> bool:
        """Keep a chunk, which takes no time."""
        self._chunks.append(message)
        return True

    async def end(self) -> None:
        """Send the sampling rate, the number of bytes and the whole audio."""
        audio = b"".join(self._chunks)
        await self._socket.send(struct.pack("<ii", self._rate, len(audio)) + audio)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the one text there is."""
        async for at_ns, message in self._socket.messages():
            text = self._socket.parse(message).get("text")
            if not isinstance(text, str):
                raise self._socket.garbage(message)
            with contextlib.suppress(ServerError):  # the text is here, whatever becomes of the connection
                await self._socket.send(END)
            yield ServerEvent(at_ns, text.strip())
            return
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


def _is_number(segment: Any) -> bool:
    return isinstance(segment, int) and not isinstance(segment, bool) and 0 <= segment < _LARGEST_SEGMENT
