"""A WebSocket of the package websockets that keeps when each message came in, and sends without a task of its own."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import DATA_OPCODES, Frame
from websockets.protocol import State


class TimedConnection(ClientConnection):
    """The package's own connection, and the times of messages that nobody has read yet, oldest first.

    A class of the package is extended because it offers no other place at which a message is seen before it waits for
    its reader. The reader's turn comes later: by microseconds when little happens, by more with a thousand streams.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.arrivals_ns: deque[int] = deque()

    def write_now(self, message: bytes | str) -> bool:
        """Write a message and return True, or False where that would mean to wait, or to find the connection closed."""
        transport = self.transport
        if self.protocol.state is not State.OPEN or transport.is_closing() or transport.get_write_buffer_size():
            return False
        if isinstance(message, str):
            self.protocol.send_text(message.encode())
        else:
            self.protocol.send_binary(message)
        self.send_data()
        return True

    def process_event(self, event: Any) -> None:
        """Take the time of a message when its last part is here, then have it processed."""
        if isinstance(event, Frame) and event.fin and event.opcode in DATA_OPCODES:
            self.arrivals_ns.append(time.perf_counter_ns())
        super().process_event(event)
