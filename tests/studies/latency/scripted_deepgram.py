"""A server of Deepgram's protocol in a thread, whose every message comes at a known time after a known chunk."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A text that is sent so many seconds after a chunk has come in; the end of the audio is the chunk behind the last.

    `start_s` is its place in the audio, by which finals that come in another order are put in order.
    """

    chunk: int
    delay_s: float
    text: str
    start_s: float = 0.0
    final: bool = False
    endpoint: bool = False

    def message(self) -> str:
        """The message as it is sent."""
        alternatives = [{"transcript": self.text, "confidence": 1.0, "words": []}]
        fields: dict[str, Any] = {"type": "Results", "start": self.start_s, "duration": 0.1, "is_final": self.final}
        return json.dumps({**fields, "speech_final": self.endpoint, "channel": {"alternatives": alternatives}})


@dataclass
class ScriptedDeepgram:
    """What the server does: its replies, and its end, by a summary, a close code, an error or not at all."""

    replies: Sequence[Reply] = ()
    close_code: int = 1000
    # Chunks after which it closes, whatever comes; None: after the end.
    close_after: int | None = None
    says: str | None = None
    silent: bool = False
    echoes_key: bool = False
    # How many streams were open at a time, at most.
    most: int = 0
    _open: int = field(default=0, repr=False)

    async def handle(self, socket: Any) -> None:
        """Serve one stream."""
        from websockets.exceptions import ConnectionClosed

        self._open += 1
        self.most = max(self.most, self._open)
        tasks: list[asyncio.Task[None]] = []
        try:
            if self.echoes_key:
                said = socket.request.headers.get("Authorization", "")
                await socket.send(json.dumps({"type": "Error", "description": f"no such key: {said}"}))
                return
            chunk = 0
            async for message in socket:
                if isinstance(message, str) and "CloseStream" not in message:
                    continue
                for reply in self.replies:
                    if reply.chunk == chunk:
                        tasks.append(asyncio.create_task(self._say(socket, reply)))
                chunk += 1
                if self.says is not None:
                    await socket.send(self.says)
                if isinstance(message, str) or chunk == self.close_after:
                    break
            await asyncio.gather(*tasks)
            await self._end(socket)
        except ConnectionClosed:
            pass
        finally:
            self._open -= 1

    async def _say(self, socket: Any, reply: Reply) -> None:
        await asyncio.sleep(reply.delay_s)
        await socket.send(reply.message())

    async def _end(self, socket: Any) -> None:
        if self.silent:
            await asyncio.sleep(60)
        if self.close_code == 1000 and self.close_after is None:
            await socket.send(json.dumps({"type": "Metadata", "request_id": "x", "duration": 1.0, "channels": 1}))
        await socket.close(self.close_code, "as written")


@contextlib.contextmanager
def serving(script: ScriptedDeepgram) -> Iterator[str]:
    """Serve in a thread of its own, and give the name that a run takes."""
    from websockets.asyncio.server import serve

    ready, ended = threading.Event(), asyncio.Event()
    place: dict[str, Any] = {}

    async def main() -> None:
        async with serve(script.handle, "127.0.0.1", 0, compression=None) as server:
            place["port"] = next(iter(server.sockets)).getsockname()[1]
            place["loop"] = asyncio.get_running_loop()
            ready.set()
            await ended.wait()
            server.close(close_connections=True)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield f"deepgram:ws://127.0.0.1:{place['port']}"
    finally:
        place["loop"].call_soon_threadsafe(ended.set)
        thread.join(10)
