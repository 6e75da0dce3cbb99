"""The load generator with picows in place of the package websockets: what a faster WebSocket would gain.

    pip install picows
    python benchmarks/picows_client.py --streams 1000 1500 2000 --seconds 15 --clients scheduler "scheduler, picows"

All else is `load_generator.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import load_generator
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from stopwav.servers import vosk_server
from stopwav.servers.websocket import WebSocket


class Listener(WSListener):  # type: ignore[misc]
    """Keeps each message with its time; None once the connection is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[tuple[int, bytes | str] | None] = asyncio.Queue()
        self.pong: asyncio.Future[None] | None = None

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take a message, or the answer to a ping."""
        if frame.msg_type == WSMsgType.TEXT:
            self.messages.put_nowait((time.perf_counter_ns(), frame.get_payload_as_utf8_text()))
        elif frame.msg_type == WSMsgType.PONG and self.pong is not None:
            self.pong.set_result(None)
            self.pong = None
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Say that nothing more will come."""
        self.messages.put_nowait(None)


class PicowsSocket(WebSocket):
    """What a session needs of a WebSocket."""

    def __init__(self, transport: WSTransport, listener: Listener, name: str, redact: Callable[[str], str]) -> None:
        super().__init__(None, name, redact)
        self._transport, self._listener = transport, listener

    async def send(self, message: bytes | str) -> None:
        """Send a message."""
        self.send_now(message)

    def send_now(self, message: bytes | str) -> bool:
        """Send a message, and return True."""
        if isinstance(message, str):
            self._transport.send(WSMsgType.TEXT, message.encode())
        else:
            self._transport.send(WSMsgType.BINARY, message)
        return True

    async def messages(self) -> AsyncIterator[tuple[int, bytes | str]]:
        """Yield each message with its time."""
        while (message := await self._listener.messages.get()) is not None:
            yield message

    async def ping(self) -> float | None:
        """Return the seconds of a round trip."""
        begin_ns = time.perf_counter_ns()
        self._listener.pong = asyncio.get_running_loop().create_future()
        self._transport.send_ping(b"")
        await self._listener.pong
        return (time.perf_counter_ns() - begin_ns) / 1e9

    async def close(self) -> None:
        """Drop the connection."""
        self._transport.disconnect()


async def open_with_picows(
    name: str, url: str, headers: Mapping[str, str] | None = None, redact: Callable[[str], str] = str
) -> WebSocket:
    """Return an open WebSocket."""
    connected: Any = await ws_connect(Listener, url)
    transport, listener = connected
    return PicowsSocket(transport, listener, name, redact)


def scheduler_with_picows(address: str, path: Path, streams: int, seconds: float) -> load_generator.Load:
    """The generator of `stopwav load`, over picows."""
    vosk_server.open_websocket = open_with_picows
    return load_generator.scheduler(address, path, streams, seconds)


load_generator.CLIENTS["scheduler, picows"] = scheduler_with_picows

if __name__ == "__main__":
    load_generator.main()
