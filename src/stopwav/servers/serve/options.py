"""The settings of `stopwav serve`, checked before anything is started."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from stopwav.engines.registry import find_entry, parse_spec
from stopwav.errors import StopwavError, suggestion

ServedProtocol = Literal["vosk", "deepgram", "openai", "sherpa"]
PROTOCOLS: tuple[ServedProtocol, ...] = get_args(ServedProtocol)

# The port of vosk-server, whose clients then need no change.
DEFAULT_PORT = 2700
# A worker is one process and keeps about one core busy. With 16 streams in it an engine has to have a real-time factor
# below 0.06 to keep up, which few have on one core: more streams would only wait for each other, so they are refused.
DEFAULT_MAX_STREAMS = 16
# For engines that advance many streams in one call. A batch is what waits when the worker is free, so it grows with the
# load; the wait is for the first chunk after a pause, and short beside the 100 to 200 ms of a chunk.
DEFAULT_MAX_BATCH = 1024
DEFAULT_MAX_WAIT_MS = 5.0
# Clients that pause send silence or keep-alives every few seconds; one that was silent for longer than this is gone.
DEFAULT_IDLE_LIMIT_S = 30.0
# Process managers wait 10 s (Docker) to 30 s (Kubernetes) between the signal to end and the kill.
DEFAULT_DRAIN_LIMIT_S = 10.0
# A process holds a model: more than this on one machine is a mistake in the option.
MOST_WORKERS = 256
MOST_STREAMS = 20_000
# Chunks that wait longer for others are late by that alone.
MOST_WAIT_MS = 1000.0
# A day: longer waits are no limit, and no clock of a system call takes an infinite one.
LONGEST_LIMIT_S = 86_400.0

_PACKAGES = ("aiohttp", "prometheus_client")


@dataclass(frozen=True)
class ServeOptions:
    """What to serve, where, to how many, and how long to wait for clients."""

    engine: str
    protocols: tuple[ServedProtocol, ...] = PROTOCOLS
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    workers: int = 1
    # Of each worker.
    max_streams: int = DEFAULT_MAX_STREAMS
    # Never shown: not in messages, not in logs, not in the representation of this object.
    token: str | None = field(default=None, repr=False)
    idle_limit_s: float = DEFAULT_IDLE_LIMIT_S
    drain_limit_s: float = DEFAULT_DRAIN_LIMIT_S
    # Whether the end of standard input ends the server too, as it does when the parent process ends.
    until_eof: bool = False
    # Chunks of one call of an engine that advances many streams at once; 1 for each on its own, as with other engines.
    max_batch: int = DEFAULT_MAX_BATCH
    max_wait_ms: float = DEFAULT_MAX_WAIT_MS

    def __post_init__(self) -> None:
        """Refuse values that cannot be, each in one line."""
        find_entry(parse_spec(self.engine))
        _check_range("--port", self.port, 0, 65_535)
        _check_range("--workers", self.workers, 1, MOST_WORKERS)
        _check_range("--max-streams", self.max_streams, 1, MOST_STREAMS)
        _check_range("--max-batch", self.max_batch, 1, MOST_STREAMS)
        if not 0 <= self.max_wait_ms <= MOST_WAIT_MS:  # not a number fails this too
            raise StopwavError(f"--max-wait {self.max_wait_ms:g}: give milliseconds from 0 to {MOST_WAIT_MS:g}")
        _check_limit("--idle-limit", self.idle_limit_s, 0.1)
        _check_limit("--drain-limit", self.drain_limit_s, 0.0)
        if self.token is not None and (not self.token or not self.token.isascii() or self.token != self.token.strip()):
            raise StopwavError("--token: a token is ASCII text without blanks around it; it goes into an HTTP header")

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine reach the server."""
        return self.host in ("127.0.0.1", "localhost", "::1")


def parse_protocols(names: Sequence[str]) -> tuple[ServedProtocol, ...]:
    """Return the protocols of these names, each once; all of them where none is named."""
    for name in names:
        if name not in PROTOCOLS:
            raise StopwavError(f"--protocol {name[:80]!r}: {suggestion(name, PROTOCOLS)}")
    return tuple(dict.fromkeys(cast(Sequence[ServedProtocol], names))) or PROTOCOLS


def check_packages() -> None:
    """Raise where the packages of the server side are not installed."""
    missing = [package for package in _PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise StopwavError(f"serve needs {names}, which is not installed: pip install 'stopwav[servers]'")


def _check_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise StopwavError(f"{option} {value}: give a number from {low} to {high}")


def _check_limit(option: str, seconds: float, low: float) -> None:
    if not (math.isfinite(seconds) and low <= seconds <= LONGEST_LIMIT_S):
        raise StopwavError(f"{option} {seconds:g}: give seconds from {low:g} to {LONGEST_LIMIT_S:g}")
