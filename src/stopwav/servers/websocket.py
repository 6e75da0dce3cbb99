"""A WebSocket as all protocols on top of one need it: opened with TLS verified, read with times, failures named."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from stopwav.errors import StopwavError
from stopwav.servers.protocol import ServerError

# A server that is up accepts a connection within this time, also one that loads its model for it.
OPEN_LIMIT_S = 20.0
# What a server has to answer that the connection is closed, and what closing may take in all.
CLOSE_ANSWER_S, CLOSE_LIMIT_S = 0.5, 0.8
# A transcript of hours with a time for every word is some megabytes.
LONGEST_MESSAGE_BYTES = 64 * 2**20
# Characters of a message that an error shows.
SHOWN = 80
# The codes with which our end closes when the other one breaks the protocol: its rules, its encoding, its lengths.
_BROKEN = {
    1002: "what WebSocket does not allow",
    1007: "text that is not UTF-8",
    1009: "a message that is longer than any transcript",
}
# Half of a character outside the first 65,536, as JSON writes it. Alone it is no character, and no file can hold it.
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


class WebSocket:
    """An open WebSocket: messages with the moment at which each came in, and failures as ServerError."""

    def __init__(self, socket: Any, name: str, redact: Callable[[str], str] = str) -> None:
        """`redact` takes what must not be shown, such as a key, out of what the server says."""
        self._socket, self.name, self.redact = socket, name, redact

    async def send(self, message: bytes | str) -> None:
        """Send a message; return once it is handed to the operating system."""
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(message)
        except ConnectionClosed as error:
            raise self._closed(error) from None

    def send_now(self, message: bytes | str) -> bool:
        """Hand a message to the operating system and return True; False where only `send` can, by waiting."""
        write_now = getattr(self._socket, "write_now", None)
        return write_now is not None and write_now(message)

    async def messages(self) -> AsyncIterator[tuple[int, bytes | str]]:
        """Yield each message with its time, until the server closes the connection in good order."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        arrivals_ns = getattr(self._socket, "arrivals_ns", None)
        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosedOK:
                return
            except ConnectionClosed as error:
                raise self._closed(error) from None
            yield arrivals_ns.popleft() if arrivals_ns else time.perf_counter_ns(), message

    def parse(self, message: bytes | str, binary: bool = False) -> dict[str, Any]:
        """Return the JSON object that a message is; raise ServerError where it is none."""
        try:
            return parse_object(self.name, message, binary)
        except ServerError:
            raise self.garbage(message) from None

    def garbage(self, message: bytes | str) -> ServerError:
        """Return the error of a message that the protocol does not have."""
        return garbage(self.name, message, self.redact)

    def stated_error(self, message: str) -> ServerError:
        """Return the error of a server that says itself that something failed."""
        return ServerError("error", f"{self.name}: the server says: {brief(self.redact(message))}")

    def closed_early(self) -> ServerError:
        """Return the error of a server that closed in good order, but before it had sent the whole text."""
        code, reason = getattr(self._socket, "close_code", None), getattr(self._socket, "close_reason", None)
        return self._closed_with(code, reason, " before the text was complete")

    async def ping(self) -> float | None:
        """Return the seconds of a round trip by a ping; None where the connection is closed."""
        from websockets.exceptions import ConnectionClosed

        begin_ns = time.perf_counter_ns()
        try:
            await (await self._socket.ping())
        except ConnectionClosed:
            return None
        return (time.perf_counter_ns() - begin_ns) / 1e9

    def pause_reading(self) -> None:
        """Leave what comes in with the operating system, whose buffers then fill up, as a client does that hangs."""
        self._socket.transport.pause_reading()

    def abort(self) -> None:
        """Drop the connection without a word, as a client does that dies or loses its network."""
        self._socket.transport.abort()

    async def close(self) -> None:
        """Close the connection, whatever its state; a server that does not answer has no say in it."""
        # The package waits without a limit where the server does not read what was sent before.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._socket.close()
        with contextlib.suppress(Exception):
            self._socket.transport.abort()

    def _closed(self, error: Any) -> ServerError:
        received, sent = error.rcvd, error.sent
        if sent is not None and not error.rcvd_then_sent and sent.code in _BROKEN:
            return ServerError("garbage", f"{self.name}: the server sent {_BROKEN[sent.code]}", sent.code)
        if received is None:
            return ServerError("closed", f"{self.name}: the connection was lost before the text was complete")
        return self._closed_with(received.code, received.reason, "")

    def _closed_with(self, code: int | None, reason: str | None, when: str) -> ServerError:
        reason = f": {brief(self.redact(reason))}" if reason else ""
        return ServerError("closed", f"{self.name}: the server closed the connection{when}{reason}", code)


def websocket_address(name: str, address: str) -> str:
    """Return an address that can be one of a WebSocket; raise StopwavError where it cannot."""
    try:
        parts = urlsplit(address)
        possible = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of six digits
        possible = False
    if not possible:
        raise StopwavError(f"{name}: {address!r} is not an address such as ws://HOST:PORT or wss://HOST")
    return address


async def open_websocket(
    name: str, url: str, headers: Mapping[str, str] | None = None, redact: Callable[[str], str] = str
) -> WebSocket:
    """Return an open WebSocket; raise ServerError where the server does not accept it. Certificates are verified."""
    from websockets.asyncio.client import connect

    from stopwav.servers.timed_connection import TimedConnection

    try:
        connecting = connect(
            url,
            additional_headers=dict(headers or {}),
            open_timeout=OPEN_LIMIT_S,
            close_timeout=CLOSE_ANSWER_S,
            max_size=LONGEST_MESSAGE_BYTES,
            max_queue=None,  # a message has to be read when it comes, not when there is room
            ping_interval=None,  # pings are sent to be measured
            compression=None,  # audio does not get smaller, and compressing takes time
            proxy=None,
            create_connection=TimedConnection,
            ssl=_tls() if urlsplit(url).scheme == "wss" else None,
        )
        connecting.process_redirect = _refuse_redirect  # type: ignore[assignment,method-assign]
        return WebSocket(await connecting, name, redact)
    except Exception as error:
        raise _refusal(name, url, error, redact) from None


def _refuse_redirect(error: Exception) -> Exception | str:
    # The server that is measured is the one that was named, and no other is sent its key.
    return error


@cache
def _tls() -> ssl.SSLContext:
    # Made once: reading the certificates of all authorities takes longer than a chunk.
    return ssl.create_default_context()


def _refusal(name: str, url: str, error: Exception, redact: Callable[[str], str]) -> ServerError:
    """The error of a connection that did not come about."""
    from websockets.exceptions import InvalidStatus, WebSocketException

    if isinstance(error, InvalidStatus):
        response = error.response
        body = bytes(response.body or b"").decode("utf-8", "replace")
        said = brief(redact(body)) or brief(redact(response.reason_phrase))
        message = f"{name}: the server refused the connection with an HTTP status"
        return ServerError("refused", f"{message}: {said}" if said else message, response.status_code)
    if isinstance(error, TimeoutError):
        return ServerError("stalled", f"{name}: {url} did not answer within {OPEN_LIMIT_S:g} s")
    said = brief(redact(getattr(error, "strerror", None) or str(error) or type(error).__name__))
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerError("refused", f"{name}: the certificate of {url} cannot be verified ({said})")
    if isinstance(error, OSError):
        return ServerError("refused", f"{name}: cannot connect to {url} ({said}); is the server running?")
    if isinstance(error, (WebSocketException, ValueError, EOFError)):
        return ServerError("refused", f"{name}: {url} does not speak WebSocket ({said})")
    raise error


def parse_object(name: str, message: bytes | str, binary: bool = True) -> dict[str, Any]:
    """Return the JSON object that a message is; raise ServerError where it is none, or binary and may not be."""
    parsed: object = None
    if binary or isinstance(message, str):
        try:
            text = message if isinstance(message, str) else message.decode()
            parsed = json.loads(text)
            if "\\u" in text and _HALF_CHARACTER.search(text):
                parsed = json.loads(json.dumps(parsed, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            parsed = None
    if not isinstance(parsed, dict):
        raise garbage(name, message)
    return parsed


def garbage(name: str, message: object, redact: Callable[[str], str] = str) -> ServerError:
    """Return the error of a message that the protocol does not have."""
    # Cut before it is written out: it may be of many megabytes.
    shown = message[: 100 * SHOWN] if isinstance(message, (str, bytes)) else message
    said = _cut(redact(repr(shown)))
    return ServerError("garbage", f"{name}: the server sent {said}, which its protocol does not have")


def brief(text: str) -> str:
    """Return the beginning of a text for an error, in one line."""
    return _cut(" ".join(text.encode("utf-8", "replace").decode().split()))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
