"""NVIDIA Riva's streaming recognition over gRPC: audio in, results that are final or not, a status at the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.servers.api_key import ApiKey, key_from_environment
from stopwav.servers.pcm import int16_bytes
from stopwav.servers.protocol import Capabilities, Failure, ServerError, ServerEvent, server_info
from stopwav.servers.riva_messages import LINEAR_PCM, METHOD, message_class
from stopwav.servers.segments import SegmentedText
from stopwav.servers.websocket import LONGEST_MESSAGE_BYTES, OPEN_LIMIT_S, brief, garbage

NAME = "riva"
# The rate of most of its models; it takes any other and changes it.
SAMPLE_RATE_HZ = 16_000
# Closing takes no longer than this, whatever the server does.
CLOSE_LIMIT_S = 0.5
# The statuses that say that a stream is not accepted: an argument, a name, a right or a state that does not fit, or
# that there is no room, no such method or no key. Those that say that it was cut off: cancelled, unavailable.
_UNAVAILABLE = 14
_REFUSED, _CLOSED = frozenset({3, 5, 7, 8, 9, 12, 16}), frozenset({1, _UNAVAILABLE})


class Riva:
    """A Riva server at `HOST:PORT`; with tls=true the key is in NVIDIA_API_KEY, if the server wants one."""

    def __init__(
        self,
        address: str,
        language: str = "en-US",
        model: str = "",
        tls: bool = False,
        punctuation: bool = False,
        verbatim: bool = True,
        word_times: bool = False,
        endpointing_ms: int = 0,
        function_id: str = "",
        rate: int = SAMPLE_RATE_HZ,
    ) -> None:
        """`verbatim` leaves numbers as words; `endpointing_ms` is the silence that ends an utterance, 0 the server's.

        `function_id` names the model at NVIDIA's own servers.
        """
        _check_address(address)
        if not (str(function_id).isascii() and str(function_id).isprintable()):
            raise StopwavError(f"{NAME}: function_id={function_id!r} is not a name of NVIDIA's")
        self._address, self._tls = address, bool(tls)
        # A key is not for a connection that others can read.
        self._key = key_from_environment("NVIDIA_API_KEY") if tls else ApiKey()
        self._function_id = str(function_id)
        settings = {
            "encoding": LINEAR_PCM,
            "sample_rate_hertz": rate,
            "audio_channel_count": 1,
            "language_code": str(language),
            "model": str(model),
            "max_alternatives": 1,
            "enable_automatic_punctuation": punctuation,
            "verbatim_transcripts": verbatim,
            "enable_word_time_offsets": word_times,
            **({"endpointing_config": {"stop_history": endpointing_ms}} if endpointing_ms else {}),
        }
        self._opening = _opening(settings)
        self.info = server_info(NAME, rate, model=str(model), language=str(language))
        self.capabilities = Capabilities(word_times=bool(word_times), endpoints=True)

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Return the request with the samples as 16-bit integers."""
        request = message_class("StreamingRecognizeRequest")(audio_content=int16_bytes(samples))
        encoded: bytes = request.SerializeToString()
        return encoded

    async def connect(self) -> RivaConnection:
        """Open a stream on a connection of its own, and tell the server what comes."""
        # Read when gRPC is first used: or it notes every lost connection on standard error, where our progress is.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        import grpc

        options = [
            ("grpc.use_local_subchannel_pool", 1),  # or all streams of this process would share one connection
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", LONGEST_MESSAGE_BYTES),
        ]
        if self._tls:
            channel = grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials(), options)
        else:
            channel = grpc.aio.insecure_channel(self._address, options)
        # Messages go and come as bytes: made beforehand, and not parsed before the time is taken.
        call = channel.stream_stream(METHOD)(metadata=self._metadata())
        connection = RivaConnection(self._address, channel, call, self._key)
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await call.wait_for_connection()
                await connection.write(self._opening)
        except TimeoutError:
            await connection.close()
            raise ServerError("stalled", f"{NAME}: {self._address} did not answer within {OPEN_LIMIT_S:g} s") from None
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            error = await connection.failure(before=True)
            await connection.close()
            raise error from None
        except BaseException:
            await connection.close()
            raise
        return connection

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        headers = {**self._key.bearer, **({"function-id": self._function_id} if self._function_id else {})}
        return tuple((name.lower(), value) for name, value in headers.items())


class RivaConnection:
    """One stream: it ends when the server closes it after the end of the audio."""

    def __init__(self, address: str, channel: Any, call: Any, key: ApiKey) -> None:
        self._address, self._channel, self._call, self._key = address, channel, call, key
        self._segments = SegmentedText()
        self._ended = self._is_closed = self._has_lost_status = False

    async def send(self, message: bytes) -> None:
        """Send a chunk."""
        await self._named(self.write(message))

    async def write(self, message: bytes) -> None:
        """Write a message, and note where that failed: gRPC then puts INTERNAL in the place of the server's status."""
        import grpc

        try:
            await self._call.write(message)
        except grpc.RpcError as error:
            self._has_lost_status = error.code() is grpc.StatusCode.INTERNAL
            raise

    async def end(self) -> None:
        """Say that there is no more audio, by closing this direction."""
        self._ended = True
        await self._named(self._call.done_writing())

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the whole text after every response; a final result before the end of the audio is an endpoint."""
        import grpc
        from google.protobuf.message import DecodeError

        while True:
            message = await self._named(self._call.read())
            at_ns = time.perf_counter_ns()
            if message is grpc.aio.EOF:
                break
            try:
                response = message_class("StreamingRecognizeResponse").FromString(message)
            except (DecodeError, ValueError, TypeError):
                raise garbage(NAME, message, self._key.redact) from None
            event = self._event(at_ns, response)
            if event is not None:
                yield event
        if not self._ended:
            raise ServerError("closed", f"{NAME}: the server ended the stream before the audio had ended", 0)

    async def ping(self) -> float | None:
        """Return None: gRPC's ping is not for its users."""
        return None

    async def close(self) -> None:
        """Give up the stream and its connection."""
        self._is_closed = True
        with contextlib.suppress(Exception):
            self._call.cancel()
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._channel.close()

    async def _named(self, operation: Awaitable[Any]) -> Any:
        """Return what an operation on the stream returns, or raise its failure as a ServerError."""
        import grpc

        try:
            return await operation
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            raise await self.failure() from None
        except asyncio.CancelledError:
            self._raise_if_cancelled()
            raise self._lost() from None

    async def failure(self, before: bool = False) -> ServerError:
        """Return the error of a stream that has ended with a status; `before` it had begun it was refused."""
        if self._is_closed:
            return self._lost()
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                status, details = await self._call.code(), await self._call.details()
        except (Exception, asyncio.CancelledError):
            self._raise_if_cancelled()
            return self._lost()
        code = int(status.value[0])
        if self._has_lost_status:
            message = f"{NAME}: the server ended the stream; its status was lost"
            return ServerError("refused" if before else "closed", message)
        reason: Failure = "error"
        if before or code in _REFUSED:
            reason = "refused"
        elif code in _CLOSED or code == 0:
            reason = "closed"
        said = self._key.brief(details or "") or "no reason"
        if before and code == _UNAVAILABLE:
            message = f"{NAME}: cannot connect to {self._address} ({said}); is the server running, with or without TLS?"
            return ServerError("refused", message, code)
        return ServerError(reason, f"{NAME}: the server ended the stream with {status.name}: {said}", code)

    def _lost(self) -> ServerError:
        return ServerError("closed", f"{NAME}: the connection is closed")

    def _raise_if_cancelled(self) -> None:
        """Raise where this task is to end: a call that was cancelled looks the same."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError

    def _event(self, at_ns: int, response: Any) -> ServerEvent | None:
        """Return the text after a response; None where it has none, such as a sign that the server is alive."""
        results = [result for result in response.results if result.alternatives]
        if not results:
            return None
        finals = [result.alternatives[0].transcript for result in results if result.is_final]
        partials = [result.alternatives[0].transcript for result in results if not result.is_final]
        for final in finals:
            self._segments.commit(final)
        if partials:
            self._segments.change(" ".join(filter(None, map(str.strip, partials))))
        processed_s = max(result.audio_processed for result in results)
        return ServerEvent(
            at_ns,
            self._key.redact_transcript(self._segments.text),
            endpoint=not self._ended and any(map(str.strip, finals)),
            # How far into the audio the server is.
            parts={"audio_processed": processed_s} if math.isfinite(processed_s) and processed_s > 0 else {},
        )


def _opening(settings: dict[str, Any]) -> bytes:
    """Return the first request of a stream; raise StopwavError where a setting has a value that it cannot have."""
    try:
        config = {"config": settings, "interim_results": True}
        opening: bytes = message_class("StreamingRecognizeRequest")(streaming_config=config).SerializeToString()
    except (TypeError, ValueError) as error:
        raise StopwavError(f"{NAME}: an option has a value that it cannot have ({brief(str(error))})") from None
    return opening


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(f"//{address}")
        possible = "/" not in address and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # such as a port of six digits
        possible = False
    if not possible:
        raise StopwavError(f"{NAME}: {address!r} is not an address such as localhost:50051")
