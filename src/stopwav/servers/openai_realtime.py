"""OpenAI's realtime protocol for transcription: audio as it is spoken, and a text for each part that is committed."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers import vllm_realtime
from stopwav.servers.api_key import ApiKey, key_from_environment
from stopwav.servers.openai_error import stated_message
from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, Connection, ServerEvent, server_info
from stopwav.servers.realtime_items import RealtimeItems
from stopwav.servers.websocket import WebSocket, open_websocket, websocket_address

NAME = "openai-realtime"
# The only rate at which OpenAI's own servers take 16-bit samples.
SAMPLE_RATE_HZ = 24_000
DIALECTS = ("openai", "vllm")
# Who decides where an utterance ends: the server by the energy or by the meaning, or nobody before the audio ends.
TURN_DETECTIONS = ("server_vad", "semantic_vad", "none")
DEFAULT_MODEL = "whisper-1"
_END = json.dumps({"type": "input_audio_buffer.commit"})
# The answer to the end of the audio where the server has taken all of it before.
_NOTHING_LEFT = "input_audio_buffer_commit_empty"
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


class OpenAIRealtime:
    """A server that speaks OpenAI's realtime protocol or vLLM's form of it; the key is in OPENAI_API_KEY."""

    def __init__(
        self,
        address: str,
        model: str = "",
        language: str = "",
        dialect: str = "openai",
        turn_detection: str = "server_vad",
        prompt: str = "",
        model_in_address: bool = False,
        rate: int = 0,
    ) -> None:
        """`model_in_address` is for servers that want to know the model when they are called; OpenAI's must not."""
        _check("dialect", dialect, DIALECTS)
        _check("turn_detection", turn_detection, TURN_DETECTIONS)
        self._key = key_from_environment("OPENAI_API_KEY")
        self._is_vllm = dialect == "vllm"
        rate = rate or (vllm_realtime.SAMPLE_RATE_HZ if self._is_vllm else SAMPLE_RATE_HZ)
        model = str(model) or ("" if self._is_vllm else DEFAULT_MODEL)
        query = {} if self._is_vllm else {"intent": "transcription"}
        if model_in_address:
            query["model"] = model
        url = websocket_address(NAME, address)
        self._url = f"{url}?{urlencode(query)}" if query else url
        if self._is_vllm:
            self._opening = vllm_realtime.opening_messages(model)
        else:
            transcription = {"model": model, "language": str(language), "prompt": str(prompt)}
            self._opening = (session_update(rate, transcription, turn_detection),)
        self._detects = not self._is_vllm and turn_detection != "none"
        self.info = server_info(NAME, rate, model=model, language=str(language))
        self.capabilities = Capabilities(endpoints=self._detects, sample_rates_hz=(rate,))

    def encode(self, samples: NDArray[np.float32]) -> str:
        """Return the message that appends the samples as 16-bit integers; "" for none."""
        if not samples.size:
            return ""
        audio = base64.b64encode(int16_bytes(samples)).decode("ascii")
        return f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}'

    async def connect(self) -> Connection:
        """Open a stream and tell the server what it is for; whether it agrees comes in as an event."""
        socket = await open_websocket(NAME, self._url, self._key.bearer, self._key.redact)
        try:
            for message in self._opening:
                await socket.send(message)
        except BaseException:
            await socket.close()
            raise
        if self._is_vllm:
            return vllm_realtime.VllmConnection(socket, self._key)
        return RealtimeConnection(socket, self._key, self._detects)


class RealtimeConnection:
    """One stream: it ends when all audio that was committed, by the server or by the end, has its text."""

    def __init__(self, socket: WebSocket, key: ApiKey, detects: bool) -> None:
        self._socket, self._key, self._detects = socket, key, detects
        self._items = RealtimeItems()
        # Items that the server ended on its own: what it commits besides them is the answer to the end of the audio.
        self._detected: set[str] = set()
        self._ended = self._answered = False

    async def send(self, message: str) -> None:
        """Send a chunk, if there is anything in it."""
        if message:
            await self._socket.send(message)

    async def end(self) -> None:
        """Say that there is no more audio."""
        self._ended = True
        await self._socket.send(_END)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the whole text after every change, and the server's own ends of utterances."""
        async for at_ns, message in self._socket.messages():
            event = self._socket.parse(message)
            kind = event.get("type")
            if not isinstance(kind, str):
                raise self._socket.garbage(message)
            if kind == "error":
                self._check_error(event)
            elif kind.startswith(_TRANSCRIPTION):
                text = self._transcribe(kind.removeprefix(_TRANSCRIPTION), event, message)
                if text is not None:
                    yield ServerEvent(at_ns, self._key.redact_transcript(text))
            elif kind.startswith(("input_audio_buffer.", "conversation.item.")):
                self._announce(kind, event, message)
                if kind == "input_audio_buffer.speech_stopped" and self._detects:
                    yield ServerEvent(at_ns, endpoint=True)
            if self._answered and self._items.is_complete:
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

    def _check_error(self, event: dict[str, Any]) -> None:
        """Raise the error that the server states, unless it says that nothing was left at the end of the audio."""
        error = event.get("error")
        if self._ended and isinstance(error, dict) and error.get("code") == _NOTHING_LEFT:
            self._answered = True
            return
        raise self._socket.stated_error(stated_message(event))

    def _announce(self, kind: str, event: dict[str, Any], message: bytes | str) -> None:
        """Note the place of an item, who ended it, and whether it is the answer to the end of the audio."""
        created = event.get("item")
        item = created.get("id") if isinstance(created, dict) else event.get("item_id")
        if item is None:
            return  # such as a buffer that was cleared
        if not isinstance(item, str):
            raise self._socket.garbage(message)
        self._items.announce(item)
        if kind == "input_audio_buffer.speech_stopped":
            self._detected.add(item)
        elif kind == "input_audio_buffer.committed":
            self._items.commit(item)
            self._answered = self._answered or (self._ended and not (self._detects and item in self._detected))

    def _transcribe(self, kind: str, event: dict[str, Any], message: bytes | str) -> str | None:
        """Return the whole text after an event of an item's text; None where it brings none."""
        item = event.get("item_id")
        brought = event.get("transcript" if kind == "completed" else "delta")
        if kind == "failed":
            raise self._socket.stated_error(stated_message(event))
        if kind not in ("delta", "completed") or (kind == "delta" and brought is None):
            return None
        if not isinstance(item, str) or not isinstance(brought, str):
            raise self._socket.garbage(message)
        if kind == "delta":
            return self._items.add(item, brought)
        # A server that never says what it committed has answered the end by its next complete text.
        self._answered = self._answered or (self._ended and not self._items.has_commits)
        return self._items.complete(item, brought)


def session_update(rate_hz: int, transcription: dict[str, str], turn_detection: str) -> str:
    """Return the message that makes a session one of transcription."""
    detection = None if turn_detection == "none" else {"type": turn_detection}
    audio = {
        "format": {"type": "audio/pcm", "rate": rate_hz},
        "transcription": {name: value for name, value in transcription.items() if value},
        "turn_detection": detection,
    }
    session = {"type": "transcription", "audio": {"input": audio}}
    return json.dumps({"type": "session.update", "session": session})


def _check(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise StopwavError(f"{NAME}: {option}={value} is not one of {', '.join(known)}")
