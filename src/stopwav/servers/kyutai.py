"""Kyutai's WebSocket protocol: MessagePack, each word when it is there, and the server's backlog after every step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.api_key import ApiKey, key_from_environment
from stopwav.servers.protocol import Capabilities, ServerError, ServerEvent, server_info
from stopwav.servers.websocket import WebSocket, brief, open_websocket, websocket_address

KEY_VARIABLE = "KYUTAI_API_KEY"
# What the server's own configurations accept.
DEFAULT_KEY = "public_token"
PATH = "/api/asr-streaming"
SAMPLE_RATE_HZ = 24_000
# The model advances by frames of this many samples; what is left of one waits for audio, not for the server.
FRAME = 1_920
# The model is some frames behind the audio, at most a few seconds. Silence pushes the last words out, as fast as the
# server computes; it answers the marker before the silence when these are there.
SILENT_FRAMES = 125
MARKER_ID = 0
# Heads of the model say how likely it is that nobody speaks within 0.5, 1, 2 and 3 s.
PAUSE_HEAD = 2
DEFAULT_PAUSE = 0.5
FULL = "no free channels"


class Kyutai:
    """A server that speaks Kyutai's protocol, at `ws://` or `wss://`; its key comes from the environment."""

    def __init__(self, address: str, pause: float = DEFAULT_PAUSE) -> None:
        """`pause` is the probability of a pause from which on the server is taken to say that the utterance is over."""
        if isinstance(pause, bool) or not isinstance(pause, (int, float)) or not 0 < pause < 1:
            raise StopwavError(f"kyutai: pause is a probability between 0 and 1, not {pause!r}")
        parts = urlsplit(websocket_address("kyutai", address))
        self._url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or PATH, "", ""))
        self._pause = pause
        self.info = server_info("kyutai", SAMPLE_RATE_HZ)
        self.capabilities = Capabilities(word_times=True, endpoints=True, sample_rates_hz=(SAMPLE_RATE_HZ,))

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as floats of 32 bits."""
        return _packed({"type": "Audio", "pcm": samples.tolist()})

    async def connect(self) -> KyutaiConnection:
        """Open a stream; the key is in a header."""
        key = key_from_environment(KEY_VARIABLE)
        headers = {"kyutai-api-key": key.value or DEFAULT_KEY}
        socket = await open_websocket("kyutai", self._url, headers, key.redact)
        return KyutaiConnection(socket, self._pause, key)


class KyutaiConnection:
    """One stream: it ends when the marker behind its audio comes back."""

    def __init__(self, socket: WebSocket, pause: float = DEFAULT_PAUSE, key: ApiKey | None = None) -> None:
        self._socket, self._pause, self._key = socket, pause, key or ApiKey()
        self._words: list[str] = []
        self._backlog_s, self._ended = 0.0, False
        # Whether there is a word since the last endpoint: silence has none.
        self._has_spoken = False

    async def send(self, message: bytes) -> None:
        """Send a chunk."""
        await self._socket.send(message)

    async def end(self) -> None:
        """Mark the end of the audio, and send the silence that pushes the last words out."""
        self._ended = True
        await self._socket.send(_packed({"type": "Marker", "id": MARKER_ID}))
        for _ in range(SILENT_FRAMES):
            await self._socket.send(_silent_frame())

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text after every word, with the last backlog that the server reported, and ends of utterances."""
        async for at_ns, message in self._socket.messages():
            reply = self._parse(message)
            kind = reply.get("type")
            if kind == "Word" and isinstance(text := reply.get("text"), str):
                self._has_spoken = self._has_spoken or bool(text.strip())
                self._words.append(self._key.redact_transcript(text.strip()))
                yield ServerEvent(at_ns, " ".join(filter(None, self._words)), parts={"queue": self._backlog_s})
            elif kind == "Step":
                yield ServerEvent(at_ns, endpoint=self._step(reply, message))
            elif kind == "Marker" and self._ended and reply.get("id") == MARKER_ID:
                return
            elif kind == "Error":
                raise self._stated(str(reply.get("message", "")))
            elif isinstance(kind, str) and kind != "Word":
                yield ServerEvent(at_ns)  # such as EndWord and Ready, or what a newer version has
            else:
                raise self._socket.garbage(message)
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

    def _step(self, reply: dict[str, Any], message: bytes | str) -> bool:
        """Take in the backlog of a step; return whether it is an endpoint: a likely pause after a word."""
        buffered, heads = reply.get("buffered_pcm", 0), reply.get("prs", [])
        is_count = isinstance(buffered, int) and not isinstance(buffered, bool) and 0 <= buffered < 2**53
        if not (is_count and isinstance(heads, list) and all(isinstance(head, float) for head in heads)):
            raise self._socket.garbage(message)
        self._backlog_s = buffered // FRAME * FRAME / SAMPLE_RATE_HZ
        is_pause = len(heads) > PAUSE_HEAD and heads[PAUSE_HEAD] > self._pause
        is_endpoint = is_pause and self._has_spoken and not self._ended
        self._has_spoken = self._has_spoken and not is_endpoint
        return is_endpoint

    def _parse(self, message: bytes | str) -> dict[str, Any]:
        import msgpack

        try:
            reply = msgpack.unpackb(message) if isinstance(message, bytes) else None
        except (ValueError, TypeError, msgpack.UnpackException):
            reply = None
        if not isinstance(reply, dict):
            raise self._socket.garbage(message)
        return reply

    def _stated(self, said: str) -> ServerError:
        if said == FULL:
            return ServerError("refused", f"kyutai: the server is full: {brief(said)}")
        return self._socket.stated_error(said or "an error without a message")


def _packed(message: dict[str, Any]) -> bytes:
    import msgpack

    return bytes(msgpack.packb(message, use_single_float=True))


@cache
def _silent_frame() -> bytes:
    return _packed({"type": "Audio", "pcm": [0.0] * FRAME})
