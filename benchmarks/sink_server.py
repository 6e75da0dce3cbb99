"""A server in Vosk's protocol that answers every chunk at once and recognises nothing: the cheapest there can be."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable

from stopwav.studies.load.generator import new_event_loop

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING = 0x1, 0x2, 0x8, 0x9


def _frame(opcode: int, payload: bytes) -> bytes:
    """A frame of a server: of at most 125 bytes, and not masked."""
    return bytes((0x80 | opcode, len(payload))) + payload


PARTIAL, FINAL = (_frame(_TEXT, text) for text in (b'{"partial" : "a"}', b'{"text" : "a"}'))


class _Sink(asyncio.Protocol):
    """One connection. Frames are told apart by their headers; what they hold is looked at only where it is short."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_open = False
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open and not self._accept():
            return
        answers = []
        while (end := self._frame_end()) is not None:
            start, opcode = end[0], self._buffer[0] & 0x0F
            if opcode == _BINARY:
                answers.append(PARTIAL)
            else:
                answers.append(self._answer(opcode, _unmasked(self._buffer[start - 4 : end[1]])))
            del self._buffer[: end[1]]
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))

    def _accept(self) -> bool:
        """Answer the handshake once it is here."""
        end = self._buffer.find(b"\r\n\r\n")
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", self._buffer)
        if end < 0 or key is None or self._transport is None:
            return False
        digest = base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + digest + b"\r\n\r\n"
        )
        del self._buffer[: end + 4]
        self._is_open = True
        return True

    def _frame_end(self) -> tuple[int, int] | None:
        """Where what the first frame holds begins and ends; None where it is not here yet."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 6
        if length == 126:
            length, start = int.from_bytes(buffer[2:4], "big"), 8
        elif length == 127:
            length, start = int.from_bytes(buffer[2:10], "big"), 14
        return (start, start + length) if len(buffer) >= start + length else None

    def _answer(self, opcode: int, payload: bytes) -> bytes:
        if opcode == _PING:
            return _frame(0xA, payload)
        if opcode == _CLOSE:
            return _frame(_CLOSE, payload)
        return FINAL if b"eof" in payload else b""


def _unmasked(masked: bytes | bytearray) -> bytes:
    mask, payload = masked[:4], masked[4:]
    return bytes(value ^ mask[place % 4] for place, value in enumerate(payload))


def serve_sink(opened: Callable[[int], object]) -> None:
    """Serve on a free port of loopback until the process ends; `opened` is called with the port."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", 0, backlog=4096)
        opened(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())
