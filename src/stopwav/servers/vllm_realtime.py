"""vLLM's form of OpenAI's realtime protocol: one text for the whole stream, which grows by deltas."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from stopwav.servers.api_key import ApiKey
from stopwav.servers.openai_error import stated_message
from stopwav.servers.protocol import ServerError, ServerEvent
from stopwav.servers.websocket import WebSocket

# The rate of the models that it serves.
SAMPLE_RATE_HZ = 16_000
_END = json.dumps({"type": "input_audio_buffer.commit", "final": True})


def opening_messages(model: str) -> tuple[str, ...]:
    """Return the messages that begin a stream: the model, and a commit, which starts the recognition."""
    update = {"type": "session.update", "model": model or None}
    return json.dumps(update), json.dumps({"type": "input_audio_buffer.commit"})


class VllmConnection:
    """One stream: it ends with the whole text, once more."""

    def __init__(self, socket: WebSocket, key: ApiKey) -> None:
        self._socket, self._key, self._ended = socket, key, False

    async def send(self, message: str) -> None:
        """Send a chunk; an empty one, which would be an error, is left out."""
        if message:
            await self._socket.send(message)

    async def end(self) -> None:
        """Say that there is no more audio."""
        self._ended = True
        await self._socket.send(_END)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the whole text after every delta, until the server says that it is done."""
        text = ""
        async for at_ns, message in self._socket.messages():
            event = self._socket.parse(message)
            kind = event.get("type")
            brought = event.get({"transcription.delta": "delta", "transcription.done": "text"}.get(str(kind), ""))
            if kind == "error":
                raise self._socket.stated_error(stated_message(event))
            if not isinstance(kind, str) or (kind.startswith("transcription.") and not isinstance(brought, str)):
                raise self._socket.garbage(message)
            if not isinstance(brought, str):
                continue  # such as the greeting
            text = brought if kind == "transcription.done" else text + brought
            yield ServerEvent(at_ns, self._key.redact_transcript(text.strip()))
            if kind == "transcription.done":
                if not self._ended:
                    name = self._socket.name
                    raise ServerError("closed", f"{name}: the server was done before the audio had ended")
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
