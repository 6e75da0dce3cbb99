"""Sessions that misbehave, as clients do: what they do to the others is measured, not what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.servers.protocol import Connection, Server, ServerError
from stopwav.servers.websocket import WebSocket

# A caller who drops off, one who holds the line and says nothing, one who sends what the protocol does not have, and
# one who sends without reading what comes back.
Fault = Literal["disconnect", "stall", "garbage", "slow-reader"]
FAULTS: tuple[Fault, ...] = ("disconnect", "stall", "garbage", "slow-reader")
# The audio that each sends before it misbehaves.
GOOD_S = 1.0
# Neither JSON nor a message of any protocol.
GARBAGE = '{"stopwav": ["garbage", 1e999, {"'
# How a faulty session ended where no server ended it: it dropped the connection, or held it until the level was over.
DROPPED, HELD = "dropped", "open"


@dataclass(frozen=True)
class FaultPlan:
    """One faulty session: what it does, and when it begins, in seconds since the level began."""

    kind: Fault
    begin_s: float


async def run_fault(
    server: Server, plan: FaultPlan, messages: Sequence[Any], chunk_s: float, origin_ns: int
) -> dict[str, Any]:
    """Misbehave until cancelled, or until the server ends the session; return how it ended."""
    await asyncio.sleep(max(0.0, plan.begin_s - (time.perf_counter_ns() - origin_ns) / 1e9))
    connection: Connection | None = None
    ended = HELD
    try:
        connection = await server.connect()
        ended = await _misbehave(connection, plan.kind, messages, chunk_s)
    except ServerError as error:
        ended = error.reason if error.close_code is None else f"{error.reason} {error.close_code}"
    except asyncio.CancelledError:
        pass
    except Exception as error:  # a client of others may not be made for this
        ended = f"not possible: {type(error).__name__}"
    finally:
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()
    return {"kind": plan.kind, "begin_s": plan.begin_s, "ended": ended}


async def _misbehave(connection: Connection, kind: Fault, messages: Sequence[Any], chunk_s: float) -> str:
    """Be a good client for a second, then a bad one; return how that ended."""
    socket: WebSocket | None = getattr(connection, "socket", None)
    good = messages[: max(1, round(GOOD_S / chunk_s))]
    if kind == "slow-reader":
        return await _send_unread(connection, socket, messages, chunk_s)
    reader = asyncio.create_task(_drain(connection))
    try:
        for message in good:
            await connection.send(message)
            await asyncio.sleep(chunk_s)
        if kind == "disconnect":
            if socket is not None:
                socket.abort()  # a client that says goodbye is none that drops off
            return DROPPED
        if kind == "garbage":
            await (connection.send(GARBAGE.encode()) if socket is None else socket.send(GARBAGE))
        # It holds its place until the level is over, or until the server has enough of it.
        await reader
        return "ended"
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _send_unread(
    connection: Connection, socket: WebSocket | None, messages: Sequence[Any], chunk_s: float
) -> str:
    """Send as everybody does, and leave what comes back where it is; over and over, so that it gets more and more."""
    if socket is not None:
        # The package reads ahead by itself, however much comes.
        socket.pause_reading()
    while True:
        for message in messages:
            await connection.send(message)
            await asyncio.sleep(chunk_s)


async def _drain(connection: Connection) -> None:
    async for _ in connection.events():
        pass
