"""A WebSocket of the package websockets that keeps the moment at which each message came in, and is quick to use.

With a thousand streams there are 20,000 messages a second, most of them short. Those are written and read here by what
the package needs to know of them, at half of its cost; everything else is left to it.
"""

from __future__ import annotations

import random
import struct
import time
from collections import deque
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.protocol import State

try:
    from websockets.speedups import apply_mask
except ImportError:  # where the package was installed without its part in C
    from websockets.utils import apply_mask

# The first byte of a whole message, and whether it is text.
_WHOLE = {0x81: Opcode.TEXT, 0x82: Opcode.BINARY}
_MASKED, _LENGTH_16, _LENGTH_64 = 0x80, 126, 127
# Bits of the first byte: the last frame of a message, and one that is part of none, such as a ping.
_LAST, _CONTROL = 0x80, 0x08


class TimedConnection(ClientConnection):
    """The package's own connection, and the times of messages that nobody has read yet, oldest first.

    A class of the package is extended because it offers no other place at which a message is seen before it waits for
    its reader. The reader's turn comes later: by microseconds when little happens, by more with a thousand streams.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.arrivals_ns: deque[int] = deque()
        self._shaken_hands = False
        # What came in of a frame that is not here as a whole; None once the package reads everything.
        self._pending: bytes | None = b""
        # Whether a message is coming in of which this is not the only frame.
        self._in_parts = False

    def write_now(self, message: bytes | str) -> bool:
        """Write a message and return True, or False where that would mean to wait, or to find the connection closed."""
        transport = self.transport
        if self.protocol.state is not State.OPEN or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(client_frame(message))
        return True

    def process_event(self, event: Any) -> None:
        """Take the time of a message when its last part is here, then have it processed."""
        if isinstance(event, Frame) and event.fin and event.opcode in DATA_OPCODES:
            self.arrivals_ns.append(time.perf_counter_ns())
        super().process_event(event)

    def data_received(self, data: bytes) -> None:
        """Read short messages of one frame here; have the package read the handshake and all other frames."""
        if not self._shaken_hands:
            super().data_received(data)
            self._shaken_hands = self.response is not None
            if self._shaken_hands and not data.endswith(b"\r\n\r\n"):
                self._pending = None  # it may be in the middle of a frame
            return
        if self._pending is None or self.protocol.state is not State.OPEN:
            self._leave_to_package(data)
            return
        data = self._pending + data if self._pending else data
        position = 0
        while (frame := _short_frame(data, position)) is not None:
            start, end = frame
            if end == 0 or self.protocol.state is not State.OPEN:
                self._pending = b""
                self._leave_to_package(data[position:])
                return
            opcode = _WHOLE.get(data[position])
            if opcode is None or self._in_parts:
                self._in_parts = self._in_parts if data[position] & _CONTROL else not data[position] & _LAST
                super().data_received(data[position:end])
            else:
                self.process_event(Frame(opcode, data[start:end]))
            position = end
        self._pending = data[position:]

    def _leave_to_package(self, data: bytes) -> None:
        pending, self._pending = self._pending, None
        super().data_received(pending + data if pending else data)


def client_frame(message: bytes | str) -> bytes:
    """Return the frame of a message of a client, whose masks only have to differ: they hide nothing from anyone."""
    first, payload = (0x81, message.encode()) if isinstance(message, str) else (0x82, message)
    length, mask = len(payload), random.randbytes(4)
    if length < _LENGTH_16:
        head = struct.pack("!BB", first, _MASKED | length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", first, _MASKED | _LENGTH_16, length)
    else:
        head = struct.pack("!BBQ", first, _MASKED | _LENGTH_64, length)
    return b"".join((head, mask, apply_mask(payload, mask)))


def _short_frame(data: bytes, position: int) -> tuple[int, int] | None:
    """Where what a frame holds begins and ends; None while it is not here, an end of 0 where it is for the package."""
    available = len(data) - position
    if available < 2:
        return None
    length, start = data[position + 1], position + 2
    if length >= _LENGTH_64:  # longer than 65,535 bytes, or masked, which no server may do
        return start, 0
    if length == _LENGTH_16:
        if available < 4:
            return None
        length, start = data[start] << 8 | data[start + 1], start + 2
    return (start, start + length) if len(data) >= start + length else None
