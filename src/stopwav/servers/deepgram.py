"""Deepgram's /v1/listen, which other servers speak too: results with their place in the audio, finals, endpoints."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.api_key import ApiKey, key_from_environment
from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, ServerEvent, server_info
from stopwav.servers.segments import SegmentedText
from stopwav.servers.websocket import WebSocket, open_websocket, websocket_address

KEY_VARIABLE = "DEEPGRAM_API_KEY"
PATH = "/v1/listen"
SAMPLE_RATE_HZ = 16_000
# It sends what is left and closes. `Finalize` before it would bring nothing more, and some servers do not have it.
END = json.dumps({"type": "CloseStream"})
# Servers round the times of segments, and words of neighbours may overlap by as much.
TOLERANCE_S = 0.1
# No word is as long, so that a key is taken out of texts and a word never is.
SHORTEST_KEY_IN_TEXT = 16


class Deepgram:
    """A server that speaks Deepgram's protocol, at `ws://` or `wss://`; its key comes from the environment."""

    def __init__(
        self,
        address: str,
        model: str = "",
        language: str = "",
        rate: int = SAMPLE_RATE_HZ,
        interim_results: bool = True,
        endpointing: bool | int | None = None,
        utterance_end_ms: int | None = None,
        vad_events: bool | None = None,
        punctuate: bool | None = None,
        smart_format: bool | None = None,
    ) -> None:
        """Options go to the server as they are; those that are not given are left to it."""
        flags = {"vad_events": vad_events, "punctuate": punctuate, "smart_format": smart_format}
        _check({"interim_results": interim_results, **flags}, {"utterance_end_ms": utterance_end_ms}, endpointing)
        options = {
            "encoding": "linear16", "sample_rate": rate, "channels": 1, "model": model or None,
            "language": language or None, "interim_results": interim_results, "endpointing": endpointing,
            "utterance_end_ms": utterance_end_ms, **flags,
        }  # fmt: skip
        self._url, self._rate = _url(address, options), rate
        # `multi` stands for several.
        self.info = server_info("deepgram", rate, str(model), "" if language == "multi" else str(language))
        self.capabilities = Capabilities(
            partials=interim_results,
            word_times=True,
            endpoints=endpointing is not False or utterance_end_ms is not None,
        )

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as 16-bit integers."""
        return int16_bytes(samples)

    async def connect(self) -> DeepgramConnection:
        """Open a stream; options are in the address, the key in a header."""
        key = key_from_environment(KEY_VARIABLE)
        headers = {"Authorization": f"Token {key.value}"} if key.value else {}
        return DeepgramConnection(await open_websocket("deepgram", self._url, headers, key.redact), self._rate, key)


class DeepgramConnection:
    """One stream: it ends with the summary of the server, or when the server closes after its last text."""

    def __init__(self, socket: WebSocket, rate: int, key: ApiKey) -> None:
        self._socket, self._rate, self._key = socket, rate, key
        self._segments, self._ended, self._sent_s = SegmentedText(), False, 0.0
        # Whether there is text since the last endpoint: silence has none.
        self._has_spoken = False

    async def send(self, message: bytes) -> None:
        """Send a chunk; an empty one would end the stream."""
        if message:
            self._sent_s += len(message) / 2 / self._rate
            await self._socket.send(message)

    def send_now(self, message: bytes) -> bool:
        """Send a chunk unless that means to wait."""
        sent = not message or self._socket.send_now(message)
        self._sent_s += len(message) / 2 / self._rate * sent
        return sent

    async def end(self) -> None:
        """Say that there is no more audio."""
        self._ended = True
        await self._socket.send(END)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text after every result, and the ends of utterances."""
        async for at_ns, message in self._socket.messages():
            reply = self._socket.parse(message)
            kind = reply.get("type")
            if kind == "Results":
                yield self._result(at_ns, reply, message)
            elif kind == "UtteranceEnd":
                self._has_spoken = False
                yield ServerEvent(at_ns, endpoint=True)
            elif kind == "Metadata":
                if self._is_summary(reply):
                    return
            elif kind == "Error" or "err_code" in reply or "error" in reply:
                raise self._socket.stated_error(_stated(reply))
            elif isinstance(kind, str):
                yield ServerEvent(at_ns)  # such as SpeechStarted, or what a newer version has
            else:
                raise self._socket.garbage(message)
        # Without a summary the text is complete where the client has ended it and nothing waits to be made final.
        if not self._ended or self._segments.partial:
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

    def _result(self, at_ns: int, reply: dict[str, Any], message: bytes | str) -> ServerEvent:
        result = _parse_result(reply)
        if result is None:
            raise self._socket.garbage(message)
        long_key = len(self._key.value) >= SHORTEST_KEY_IN_TEXT
        transcript = self._key.redact(result.transcript) if long_key else result.transcript
        self._has_spoken = self._has_spoken or bool(transcript.strip())
        if result.is_final:
            text = self._segments.commit(transcript, result.start_s, result.end_s - TOLERANCE_S)
        else:
            text = self._segments.change(transcript, result.start_s)
        is_endpoint = result.is_endpoint and self._has_spoken and not self._is_rest(result.end_s)
        self._has_spoken = self._has_spoken and not is_endpoint
        return ServerEvent(at_ns, text, endpoint=is_endpoint)

    def _is_rest(self, end_s: float) -> bool:
        """Whether a result may be the answer to the end of the audio: it comes after it and reaches up to it."""
        return self._ended and end_s > self._sent_s - TOLERANCE_S

    def _is_summary(self, reply: dict[str, Any]) -> bool:
        """Whether this summary ends the stream: some servers send one at the beginning too, when it covers no audio."""
        return self._ended and (reply.get("duration") != 0 or self._sent_s == 0)


@dataclass(frozen=True)
class _Result:
    """The fields of a result that are used here. Without a place it is behind all others, and reaches to the end."""

    transcript: str
    start_s: float | None
    end_s: float
    is_final: bool
    is_endpoint: bool


def _parse_result(reply: dict[str, Any]) -> _Result | None:
    """Return the fields of a result; None where one is of the wrong type."""
    try:
        alternatives = reply["channel"]["alternatives"]
        transcript = alternatives[0]["transcript"] if alternatives else ""
        start_s, duration_s = _seconds(reply.get("start")), _seconds(reply.get("duration"))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    flags = [reply.get(name, False) for name in ("is_final", "speech_final", "from_finalize")]
    if not (isinstance(transcript, str) and all(isinstance(flag, bool) for flag in flags)):
        return None
    is_final, speech_final, from_finalize = flags
    end_s = math.inf if start_s is None else start_s + (duration_s or 0.0)
    return _Result(transcript, start_s, end_s, is_final or speech_final, speech_final and not from_finalize)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, (str, bool)) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _stated(reply: dict[str, Any]) -> str:
    """The message in an error, under the names that servers give it."""
    stated = (reply.get(name) for name in ("description", "err_msg", "message", "error", "reason", "err_code"))
    return next((text for text in stated if isinstance(text, str) and text), "an error without a message")


def _check(flags: dict[str, Any], milliseconds: dict[str, Any], endpointing: Any) -> None:
    """Raise StopwavError where an option has a value that the protocol does not have."""
    for name, value in flags.items():
        if not (value is None or isinstance(value, bool)):
            raise StopwavError(f"deepgram: {name} is true or false, not {value!r}")
    if not (isinstance(endpointing, bool)):
        milliseconds = {**milliseconds, "endpointing": endpointing}
    for name, value in milliseconds.items():
        if not (value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)):
            raise StopwavError(f"deepgram: {name} is a whole number of milliseconds, not {value!r}")


def _url(address: str, options: dict[str, Any]) -> str:
    """The address with the protocol's own path, unless it has another, and with the options that have a value."""
    parts = urlsplit(websocket_address("deepgram", address))
    given = {name: value for name, value in options.items() if value is not None}
    query = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()})
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or PATH, query, ""))
