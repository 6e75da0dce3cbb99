"""Sessions that misbehave, as clients do: what they do to the others is measured, not what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.servers.protocol import Connection, Server, ServerError

# A caller who drops off, one who holds the line and says nothing, one who sends what the protocol does not have, and
# one who sends without reading what comes back.
Fault = Literal["disconnect", "stall", "garbage", "slow-reader"]
FAULTS: tuple[Fault, ...] = ("disconnect", "stall", "garbage", "slow-reader")
# The audio that each sends before it misbehaves.
GOOD_S = 1.0
GARBAGE = '{"stopwav": ["garbage", 1e999, {"'


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
    ended = "open"
    try:
        connection = await server.connect()
        await _misbehave(connection, plan.kind, messages, chunk_s)
    except ServerError as error:
        ended = error.reason
    except asyncio.CancelledError:
        pass
    finally:
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()
    return {"kind": plan.kind, "begin_s": plan.begin_s, "ended": ended}


async def _misbehave(connection: Connection, kind: Fault, messages: Sequence[Any], chunk_s: float) -> None:
    good = messages[: max(1, round(GOOD_S / chunk_s))]
    reader = None if kind == "slow-reader" else asyncio.create_task(_drain(connection))
    try:
        for message in good:
            await connection.send(message)
            await asyncio.sleep(chunk_s)
        if kind == "garbage":
            await connection.send(GARBAGE)
        elif kind == "slow-reader":
            for message in messages[len(good) :]:
                await connection.send(message)
                await asyncio.sleep(chunk_s)
        if kind != "disconnect":
            # It holds its place until the level is over, or until the server has enough of it.
            await (reader or asyncio.sleep(3600))
    finally:
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _drain(connection: Connection) -> None:
    async for _ in connection.events():
        pass
