"""Sessions that misbehave: each kind does what it says, the server survives, and the others keep their texts."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import short_levels
from noise_corpus import write_corpus

import stopwav
from stopwav.servers.protocol import Connection
from stopwav.servers.registry import make_server
from stopwav.servers.serve.background import BackgroundServer
from stopwav.studies.load import faults
from stopwav.studies.load.faults import Fault, FaultPlan, run_fault
from stopwav.studies.load.target import Target
from stopwav.studies.study import results

SPEAKS = f"{Path(__file__).parent / 'load_engines.py'}:Speaks"
CHUNK_S = 0.05


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundServer]:
    with BackgroundServer(SPEAKS, "--idle-limit", "30") as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "GOOD_S", 0.2)


def misbehave(server: BackgroundServer, kind: Fault, seconds: float) -> dict[str, Any]:
    """How a faulty session ends that has this long."""
    client = make_server(f"vosk-server:{server.url()}")
    messages = [client.encode(np.zeros(800, np.float32))] * 8

    async def session() -> dict[str, Any]:
        plan = FaultPlan(kind, 0.0)
        task = asyncio.create_task(run_fault(client, plan, messages, CHUNK_S, time.perf_counter_ns()))
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        return await task

    return asyncio.run(session())


def failed(server: BackgroundServer) -> dict[str, float]:
    """The streams that failed, by the server's own count of reasons."""
    import re
    import urllib.request

    page = urllib.request.urlopen(server.url("http", "/metrics")).read().decode()
    pattern = r'stopwav_streams_failed_total\{protocol="vosk",reason="([a-z-]+)"\} (\S+)'
    return {reason: float(count) for reason, count in re.findall(pattern, page)}


def is_open(server: BackgroundServer) -> bool:
    import urllib.request

    return b"stopwav_streams_open 0.0" not in urllib.request.urlopen(server.url("http", "/metrics")).read()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("kind", "ended", "reason"),
    [
        ("disconnect", "dropped", "disconnected"),
        ("stall", "open", "disconnected"),
        ("garbage", "closed 1007", "garbage"),
        ("slow-reader", "open", "disconnected"),
    ],
)
def test_each_kind_is_to_the_server_what_it_says(
    kind: Fault, ended: str, reason: str, server: BackgroundServer
) -> None:
    before = failed(server).get(reason, 0)
    fault = misbehave(server, kind, 1.5)
    assert (fault["kind"], fault["ended"]) == (kind, ended)
    deadline_s = time.monotonic() + 10
    while is_open(server):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    assert failed(server)[reason] == before + 1


@pytest.mark.usefixtures("quick")
def test_a_slow_reader_leaves_replies_where_they_are(server: BackgroundServer, monkeypatch: pytest.MonkeyPatch) -> None:
    unread, seen = [], []
    close = type(asyncio.run(_connect(server))).close

    async def look(connection: Any) -> None:
        transport = connection.socket._socket.transport
        counted = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, b"\0" * 4)
        unread.append(struct.unpack("i", counted)[0])
        seen.append(len(connection.socket._socket.arrivals_ns))
        await close(connection)

    monkeypatch.setattr("stopwav.servers.vosk_server.VoskConnection.close", look)
    misbehave(server, "slow-reader", 1.0)
    misbehave(server, "stall", 1.0)
    # The replies to twenty chunks are in the socket's buffer, and none in the client's.
    assert unread[0] > 100
    assert (seen[0], unread[1]) == (0, 0)


async def _connect(server: BackgroundServer) -> Connection:
    connection = await make_server(f"vosk-server:{server.url()}").connect()
    await connection.close()
    return connection


def test_a_client_that_cannot_misbehave_says_so(server: BackgroundServer) -> None:
    class Broken:
        async def connect(self) -> Connection:
            raise TypeError("not made for this")

    plan = FaultPlan("garbage", 0.0)
    ended = asyncio.run(run_fault(Broken(), plan, [b""], 0.1, time.perf_counter_ns()))  # type: ignore[arg-type]
    assert ended["ended"] == "not possible: TypeError"


def test_the_row_with_faults_stands_beside_the_row_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_levels.plan, "THOROUGH_S", 1.5)
    monkeypatch.setattr(short_levels.plan, "PATIENCE_S", 1.0)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)
    pids = []
    close = Target.close

    def closing(target: Target) -> None:
        if target._server is not None:
            pids.append((target._server.pid, target._server.alive))
        close(target)

    monkeypatch.setattr(Target, "close", closing)
    corpus = write_corpus(tmp_path / "corpus", count=3, seconds=0.5)
    places = {"corpus": corpus, "words": corpus / "words.ctm", "save": tmp_path / "runs"}
    record = stopwav.load([SPEAKS], streams=[2], rounds=1, faults=True, **places)
    # One server, which survived.
    assert [alive for _, alive in pids] == [True]
    _, without, with_faults = results(record)
    assert (without.name, with_faults.name) == (f"{SPEAKS} @ 2", f"{SPEAKS} @ 2 + faults")
    assert without.params["faulty_sessions"] == {}
    endings = with_faults.params["faulty_sessions"]
    assert isinstance(endings, dict)
    assert {ending.partition(":")[0] for ending in endings} <= set(faults.FAULTS)
    assert endings
    for row in (without, with_faults):
        # All of their texts are right: "one two", as the engine says to whoever is patient.
        assert (row.metrics["wer"].value, row.metrics["failed"].value) == (0, 0)
    # The same sessions, which begin alike.
    assert without.metrics["sessions"].value == with_faults.metrics["sessions"].value
    assert record.complete
