"""The interface of a server's client. Any class that has these members is one: nothing needs to be inherited.

Texts arrive when they arrive, not as the answer to a chunk. So a connection has two directions that know nothing of
each other: chunks are sent at the times at which they were spoken, and every event has the time at which it came in.
All times are of the client's clock (`time.perf_counter_ns`): no clock is shared with the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import EngineInfo
from stopwav.errors import StopwavError

# Why a stream through a server failed: it was not accepted, ended before its text was complete, sent nothing for too
# long, sent what its protocol does not have, or said itself that something failed.
Failure = Literal["refused", "closed", "stalled", "garbage", "error"]


class ServerError(StopwavError):
    """A stream that a server did not complete: the reason as a code, and the protocol's own code where it gave one."""

    def __init__(self, reason: Failure, message: str, close_code: int | None = None) -> None:
        super().__init__(message if close_code is None else f"{message} (code {close_code})")
        self.reason: Failure = reason
        self.close_code = close_code


@dataclass(frozen=True)
class Capabilities:
    """What a server tells, by its protocol; an adapter may know better once it is connected."""

    # Texts before the end of an utterance, and texts that are marked as never to change again.
    partials: bool = True
    finals: bool = True
    word_times: bool = False
    # An event that says that the utterance is over, before the client says so.
    endpoints: bool = False
    # The rates at which it takes audio, in Hz, the preferred one first; none where any will do.
    sample_rates_hz: tuple[int, ...] = ()
    # The languages it is known to recognise; none where that is not known.
    languages: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {
            "partials": self.partials,
            "finals": self.finals,
            "word_times": self.word_times,
            "endpoints": self.endpoints,
            "sample_rates_hz": list(self.sample_rates_hz),
            "languages": list(self.languages),
        }


@dataclass(frozen=True)
class ServerEvent:
    """Something that came from a server, at a moment of the client's clock.

    `text` is the whole text of the stream as a listener sees it then, and None where the event brings no text.
    """

    at_ns: int
    text: str | None = None
    # Whether it says that the utterance is over: the endpoint of the server's own, not the answer to the end of audio.
    endpoint: bool = False
    # Seconds that the server itself reports for this event, such as {"queue": 0.02}.
    parts: Mapping[str, float] = field(default_factory=dict)


class Connection(Protocol):
    """One stream through a server.

    One that can also hand over a chunk without ever waiting has `send_now(message) -> bool`: True once it is sent,
    False where `send` has to wait, because the server does not read. A thousand streams then need no task each.
    One over a WebSocket may have that as `socket`: a client that misbehaves on purpose needs it.
    """

    async def send(self, message: Any) -> None:
        """Send a chunk that `Server.encode` made; return once it is handed to the operating system."""
        ...

    async def end(self) -> None:
        """Say that there is no more audio."""
        ...

    def events(self) -> AsyncIterator[ServerEvent]:
        """Yield what comes in until the server has said everything; raise ServerError where it does not."""
        ...

    async def ping(self) -> float | None:
        """Return the seconds of a round trip by the protocol's own ping; None where it has none."""
        ...

    async def close(self) -> None:
        """Close the connection, whatever its state; never raises."""
        ...


def server_info(name: str, sample_rate_hz: int, model: str = "", language: str = "") -> EngineInfo:
    """Return the description of a server, of which the protocol tells neither version nor number format."""
    return EngineInfo(
        name=name,
        version="unknown",
        sample_rate_hz=sample_rate_hz,
        device="server",
        precision="unknown",
        model=model,
        language=language,
    )


@runtime_checkable
class Server(Protocol):
    """A recogniser behind a protocol. Making it opens no connection."""

    info: EngineInfo
    capabilities: Capabilities

    def encode(self, samples: NDArray[np.float32]) -> Any:
        """Return a chunk as it is sent: done beforehand, so that no work is left when it is due."""
        ...

    async def connect(self) -> Connection:
        """Return a new stream; raise ServerError where the server does not accept it."""
        ...
