"""`serve`: start the workers, answer until a signal comes, let the open streams finish, and end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from stopwav.engines.protocol import EngineInfo
from stopwav.errors import StopwavError
from stopwav.servers.serve.options import ServedProtocol, ServeOptions, check_packages

if TYPE_CHECKING:
    from stopwav.servers.serve.host import EngineFacts
    from stopwav.servers.serve.metrics import ServeMetrics
    from stopwav.servers.serve.pool import WorkerPool

Result = TypeVar("Result")

# Connections that wait to be accepted: a burst of clients, not a queue.
BACKLOG = 512


@dataclass(frozen=True)
class ReadyServer:
    """A server that answers: where, and how."""

    engine: str
    host: str
    port: int
    protocols: tuple[ServedProtocol, ...]
    # The description of the engine.
    info: EngineInfo

    @property
    def url(self) -> str:
        """The address of its WebSockets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ws://{host}:{self.port}"


class _Ending:
    """The wish to end, and, with a second signal, not to wait for open streams."""

    def __init__(self) -> None:
        self.asked, self.urged = asyncio.Event(), asyncio.Event()
        self._signals = 0

    def ask(self) -> None:
        """Take note of a signal."""
        self.asked.set()
        self._signals += 1
        if self._signals > 1:
            self.urged.set()


def serve(
    options: ServeOptions | str,
    on_ready: Callable[[ReadyServer], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let open streams finish; `report` is told, in a line, what goes wrong.

    The name of an engine is served with the default options. It runs an event loop of its own and sets handlers of
    signals, so it has to be called in the main thread.
    """
    check_packages()
    if isinstance(options, str):
        options = ServeOptions(options)
    with warnings.catch_warnings():
        # The library warns of headers that clients wrote: they could print here what they like.
        warnings.filterwarnings("ignore", module="aiohttp")
        asyncio.run(_serve(options, on_ready or _ignore, report or _ignore))


def _ignore(_: object) -> None:
    """Take no notice."""


async def _serve(options: ServeOptions, on_ready: Callable[[ReadyServer], None], report: Callable[[str], None]) -> None:
    from stopwav.servers.serve.batcher import Batches
    from stopwav.servers.serve.metrics import ServeMetrics
    from stopwav.servers.serve.pool import WorkerPool

    ending = _Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.ask)
    if options.until_eof:
        await _end_on_eof(ending)
    # Before the engine is loaded, which can take minutes: a port that is in use is known at once.
    with _listen(options.host, options.port) as listener:
        metrics = ServeMetrics()
        batches = Batches(options.max_batch, options.max_wait_ms / 1e3)
        pool = WorkerPool(options.engine, options.workers, options.max_streams, metrics.restart, report, batches)
        metrics.watch(lambda: pool.open_streams, lambda: pool.workers_up)
        try:
            facts = await _until(ending.asked, asyncio.ensure_future(pool.start()))
            if facts is not None:
                await _answer(options, pool, metrics, facts, listener, on_ready, ending)
        finally:
            await pool.close()


async def _answer(
    options: ServeOptions,
    pool: WorkerPool,
    metrics: ServeMetrics,
    facts: EngineFacts,
    listener: socket.socket,
    on_ready: Callable[[ReadyServer], None],
    ending: _Ending,
) -> None:
    """Answer requests until the end is asked for; then drain, which a second signal cuts short."""
    from aiohttp import web

    from stopwav.servers.serve.application import make_application
    from stopwav.servers.serve.service import Service

    application = make_application(Service(options, pool, metrics, facts))
    runner = web.AppRunner(application, access_log=None, logger=_silent_logger(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        port: int = listener.getsockname()[1]
        on_ready(ReadyServer(facts.info.name, options.host, port, options.protocols, facts.info))
        await ending.asked.wait()
        await _until(ending.urged, asyncio.ensure_future(pool.drain(options.drain_limit_s)))
    finally:
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise StopwavError(f"--host {host[:80]!r} is not an address of this machine ({error})") from None
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = "; give another --port, or 0 for any that is free" if port else ""
        raise StopwavError(f"cannot listen on {host}:{port} ({error.strerror or error}){hint}") from None
    return listener


async def _end_on_eof(ending: _Ending) -> None:
    """End when standard input does."""

    class Input(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            ending.asked.set()

    try:
        await asyncio.get_running_loop().connect_read_pipe(Input, sys.stdin)
    except (OSError, ValueError) as error:
        raise StopwavError(f"--until-eof: standard input is not a pipe or a terminal ({error})") from None


async def _until(event: asyncio.Event, work: asyncio.Future[Result]) -> Result | None:
    """Return the result of a work; None where the event comes before."""
    end = asyncio.ensure_future(event.wait())
    try:
        waited: set[asyncio.Future[Any]] = {end, work}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        for future in (end, work):
            future.cancel()
        await asyncio.gather(end, work, return_exceptions=True)


def _silent_logger() -> logging.Logger:
    """A logger that drops everything: what clients do wrong is counted, not printed."""
    logger = logging.getLogger("stopwav.serve")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
