"""OpenAI's interface for transcriptions: the whole audio is uploaded once it has ended, and its text comes back."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.api_key import ApiKey, key_from_environment
from stopwav.servers.openai_error import message_of_body, stated_message
from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, Failure, ServerError, ServerEvent, server_info
from stopwav.servers.server_sent_events import SentEvents
from stopwav.servers.streamed_transcript import StreamedTranscript
from stopwav.servers.websocket import LONGEST_MESSAGE_BYTES, OPEN_LIMIT_S, garbage, parse_object

NAME = "openai"
# Models of speech work at this rate: a higher one only makes the upload longer.
SAMPLE_RATE_HZ = 16_000
FORMATS = ("json", "verbose_json", "text")
# Closing takes no longer than this, whatever the server does.
CLOSE_LIMIT_S = 0.5
# The explanation of a refusal is a line or two.
_LONGEST_EXPLANATION_BYTES = 2**16


@dataclass(frozen=True)
class _Upload:
    """The request as all streams of a server send it."""

    url: str
    fields: tuple[tuple[str, str], ...]
    plain: bool
    key: ApiKey = field(repr=False)


class OpenAIUpload:
    """A server with OpenAI's /audio/transcriptions, at `http://` or `https://`; the key is in OPENAI_API_KEY."""

    def __init__(
        self,
        address: str,
        model: str = "whisper-1",
        language: str = "",
        response_format: str = "json",
        stream: bool = False,
        prompt: str = "",
        temperature: float | None = None,
        model_field: str = "model",
    ) -> None:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise StopwavError(f"{NAME}: {address!r} is not an address such as http://localhost:8000/v1")
        if response_format not in FORMATS:
            raise StopwavError(f"{NAME}: response_format={response_format} is not one of {', '.join(FORMATS)}")
        fields = {
            model_field: model,
            "response_format": response_format,
            "language": language,
            "stream": "true" if stream else "",
            "prompt": prompt,
            "temperature": "" if temperature is None else temperature,
        }
        self._upload = _Upload(
            url=f"{address.rstrip('/')}/audio/transcriptions",
            fields=tuple((name, str(value)) for name, value in fields.items() if value != ""),
            plain=response_format == "text",
            key=key_from_environment("OPENAI_API_KEY"),
        )
        self.info = server_info(NAME, SAMPLE_RATE_HZ, model=str(model), language=str(language))
        # Nothing comes before the end of the audio. With stream=true the text then grows before it is final.
        self.capabilities = Capabilities(partials=bool(stream), sample_rates_hz=(SAMPLE_RATE_HZ,))

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the samples as 16-bit integers."""
        return int16_bytes(samples)

    async def connect(self) -> UploadConnection:
        """Return a new stream, after a look whether anyone listens at the address: the upload is far too late."""
        connection = UploadConnection(self._upload)
        try:
            await connection.knock()
        except ServerError:
            await connection.close()
            raise
        return connection


class UploadConnection:
    """One stream: audio is collected, uploaded at its end, and answered by the text at once or piece by piece."""

    def __init__(self, upload: _Upload) -> None:
        self._upload = upload
        self._audio: list[bytes] = []
        # What came in, with a ServerError or None at the end; read by `events`, also after the connection is closed.
        self._arrivals: asyncio.Queue[ServerEvent | ServerError | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def knock(self) -> None:
        """Open a connection and close it again; raise ServerError where the server does not accept it."""
        parts = urlsplit(self._upload.url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            async with asyncio.timeout(OPEN_LIMIT_S):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except TimeoutError:
            raise self._failure("stalled", f"{self._upload.url} did not answer within {OPEN_LIMIT_S:g} s") from None
        except (OSError, ValueError) as error:
            reason = self._upload.key.brief(str(error))
            message = f"cannot connect to {self._upload.url} ({reason}); is the server running?"
            raise self._failure("refused", message) from None
        writer.transport.abort()

    async def send(self, message: bytes) -> None:
        """Keep a chunk until the upload."""
        if self._is_closed:
            raise self._failure("closed", "the connection is closed")
        self._audio.append(message)

    async def end(self) -> None:
        """Begin the upload; the answer is for `events`."""
        if self._is_closed:
            raise self._failure("closed", "the connection is closed")
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the text as it comes in after the end of the audio."""
        while True:
            arrival = await self._arrivals.get()
            if arrival is None:
                return
            if isinstance(arrival, ServerError):
                raise arrival
            yield arrival

    async def ping(self) -> float | None:
        """Return None: HTTP has no ping."""
        return None

    async def close(self) -> None:
        """Give up the upload, if it has not ended; who still waits for events is told so."""
        self._is_closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_LIMIT_S)
        self._arrivals.put_nowait(self._failure("closed", "the connection is closed"))

    async def _run(self) -> None:
        """Upload, and put what comes back, or the reason of the failure, where `events` reads it."""
        import aiohttp

        last: ServerError | None = None
        try:
            await self._post()
        except ServerError as error:
            last = self._upload.key.cleaned(error)
        except TimeoutError:
            last = self._failure("stalled", f"{self._upload.url} did not answer within {OPEN_LIMIT_S:g} s")
        except aiohttp.ClientConnectorError as error:  # also a certificate that cannot be verified
            last = self._failure("refused", f"cannot connect to {self._upload.url} ({_cause(error)})")
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError):
            last = self._failure("closed", "the connection was lost before the text was complete")
        except Exception as error:  # an answer that is no HTTP: a failure of the server, whichever way it shows
            last = self._failure(
                "garbage", f"the server's answer cannot be read ({self._upload.key.brief(str(error))})"
            )
        self._arrivals.put_nowait(last)

    async def _post(self) -> None:
        import aiohttp

        form = aiohttp.FormData()
        for name, value in self._upload.fields:
            form.add_field(name, value)
        wave = io.BytesIO(wave_file(b"".join(self._audio)))
        form.add_field("file", wave, filename="audio.wav", content_type="audio/wav")
        # How long the answer may take is for the caller to judge.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=OPEN_LIMIT_S)
        # A connection of its own, as every listener has one; no proxy, and no redirect to where a key should not go.
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.post(
                self._upload.url, data=form, headers=self._upload.key.bearer, allow_redirects=False
            ) as response,
        ):
            if not 200 <= response.status < 300:
                raise await self._refusal(response)
            await self._read(response)

    async def _refusal(self, response: Any) -> ServerError:
        """The error of an answer whose status says that there is no text."""
        body, status = b"", int(response.status)
        with contextlib.suppress(Exception):  # the status is known, whatever becomes of its explanation
            async with asyncio.timeout(CLOSE_LIMIT_S):
                while len(body) < _LONGEST_EXPLANATION_BYTES and (piece := await response.content.readany()):
                    body += piece
        message = message_of_body(self._upload.key.redact(body.decode("utf-8", "replace")))
        # 503 is how a server says that it takes no more.
        reason: Failure = "error" if status >= 500 and status != 503 else "refused"
        return ServerError(reason, f"{NAME}: the server answered with an HTTP status: {message}".rstrip(": "), status)

    async def _read(self, response: Any) -> None:
        """Read an answer piece by piece, and decide by its type what the pieces are."""
        parts = _processing(response.headers.get("openai-processing-ms"))
        events: SentEvents | None = SentEvents() if response.content_type == "text/event-stream" else None
        transcript = StreamedTranscript(NAME, self._upload.plain)
        body, at_ns = bytearray(), time.perf_counter_ns()
        async for piece in response.content.iter_any():
            at_ns = time.perf_counter_ns()
            if events is None:
                body += piece
            else:
                self._put(transcript, events.push(piece), at_ns)
                if transcript.is_complete:
                    return
            if len(body) + (events.pending_bytes if events else 0) > LONGEST_MESSAGE_BYTES:
                raise self._failure("garbage", f"the server's answer is longer than {LONGEST_MESSAGE_BYTES} bytes")
        if events is None:
            text = self._upload.key.redact_transcript(self._text_of(bytes(body)))
            self._arrivals.put_nowait(ServerEvent(at_ns, text, parts=parts))
            return
        self._put(transcript, events.finish(), at_ns)
        if not transcript.has_text:
            raise self._failure("closed", "the server answered stream=true with no text; leave stream=true out")

    def _put(self, transcript: StreamedTranscript, events: list[str], at_ns: int) -> None:
        for data in events:
            if transcript.is_complete:
                return
            text = transcript.push(data)
            if text is not None:
                self._arrivals.put_nowait(ServerEvent(at_ns, self._upload.key.redact_transcript(text)))

    def _text_of(self, body: bytes) -> str:
        """Return the text in an answer that came at once."""
        answer = body.decode("utf-8", "replace")
        try:
            parsed = parse_object(NAME, answer)
        except ServerError:
            if not self._upload.plain:
                raise
            return _plain_text(answer)
        if isinstance(parsed.get("text"), str):
            return str(parsed["text"]).strip()
        if parsed.get("error"):
            raise self._failure("error", f"the server says: {stated_message(parsed)}")
        raise garbage(NAME, answer)

    def _failure(self, reason: Failure, message: str) -> ServerError:
        return ServerError(reason, f"{NAME}: {self._upload.key.redact(message)}")


def wave_file(pcm: bytes) -> bytes:
    """Return a WAV file of one channel of 16-bit integers."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
    data = struct.pack("<4sI", b"data", len(pcm))
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data) + len(pcm), b"WAVE") + form + data + pcm


def _plain_text(answer: str) -> str:
    """The text that an answer is; some servers write it as JSON does, in quotation marks."""
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(answer)
        if isinstance(parsed, str):
            answer = parsed.encode("utf-8", "replace").decode()
    return answer.strip()


def _processing(header: str | None) -> dict[str, float]:
    """The seconds that OpenAI's own servers say an answer took them."""
    try:
        seconds = float(header or "") / 1000
    except ValueError:
        return {}
    return {"processing": seconds} if math.isfinite(seconds) and seconds >= 0 else {}


def _cause(error: Any) -> str:
    """The reason that the system gives, or the check of the certificate, without the address once more."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    return getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or type(cause).__name__
