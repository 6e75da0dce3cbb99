"""Why a stream ended without its text, as a code; and which code each protocol has for it."""

from __future__ import annotations

from typing import Literal

from stopwav.errors import StopwavError

# The client went away; it sent nothing for too long; it did not read what it was sent; it sent what the protocol does
# not have, or more than is accepted. The engine raised an error; its process died, ran out of memory or did not answer.
# The server is ending. Something in the server itself failed.
StreamEnd = Literal[
    "disconnected", "idle", "stalled", "garbage", "too-large", "error", "crashed", "oom", "timeout", "drained",
    "internal",
]  # fmt: skip
# Why a stream was not accepted: all places are taken, the server is ending, no worker is up, or the token is wrong.
RefusalReason = Literal["full", "draining", "restarting", "token"]

# WebSocket codes: 1001 going away, 1007 invalid payload, 1008 policy, 1009 too big, 1011 internal error.
CLOSE_CODES: dict[StreamEnd, int] = {
    "disconnected": 1006,
    "idle": 1008,
    "stalled": 1008,
    "garbage": 1007,
    "too-large": 1009,
    "error": 1011,
    "crashed": 1011,
    "oom": 1011,
    "timeout": 1011,
    "drained": 1001,
    "internal": 1011,
}
HTTP_STATUS: dict[StreamEnd, int] = {
    "disconnected": 400,
    "idle": 408,
    "stalled": 408,
    "garbage": 400,
    "too-large": 413,
    "error": 500,
    "crashed": 500,
    "oom": 500,
    "timeout": 500,
    "drained": 503,
    "internal": 500,
}
# A close frame holds 123 bytes of reason.
LONGEST_REASON_BYTES = 123


class StreamFailure(StopwavError):
    """A stream that ended without its text: the reason as a code, and a message for the client."""

    def __init__(self, reason: StreamEnd, message: str) -> None:
        super().__init__(message)
        self.reason: StreamEnd = reason

    @property
    def close_code(self) -> int:
        """The code of the WebSocket's close frame."""
        return CLOSE_CODES[self.reason]

    @property
    def close_message(self) -> bytes:
        """The message as a close frame can hold it."""
        return str(self).encode()[:LONGEST_REASON_BYTES].decode(errors="ignore").encode()

    @property
    def status(self) -> int:
        """The HTTP status of the answer to an upload."""
        return HTTP_STATUS[self.reason]


class StreamRefused(StopwavError):
    """A stream that was not accepted."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason
