"""What a server does not accept: too many streams, too much at once, no token, silence, clients that do not read."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from serve_client import (
    END,
    close_code,
    connect,
    engine,
    frame,
    memory_bytes,
    metric,
    open_raw,
    pcm,
    request,
    say,
    transcribe,
    until,
    wav,
)

from stopwav.servers.serve.background import BackgroundServer

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

TOKEN = "correct-horse-battery"
LISTEN = "/v1/listen?encoding=linear16&sample_rate=16000"


def refusal_status(server: BackgroundServer, path: str, headers: dict[str, str] | None = None) -> int:
    """The HTTP status with which a WebSocket was not accepted."""
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as refused, connect(server, path, additional_headers=headers or {}):
        pass
    return refused.value.response.status_code


def test_a_full_server_refuses_with_the_code_of_the_protocol_and_accepts_again() -> None:
    with BackgroundServer(engine("Counting"), "--max-streams", "2", "--workers", "2") as server:
        with ExitStack() as stack:
            sockets = [stack.enter_context(connect(server)) for _ in range(4)]
            for path in ("/", "/sherpa", LISTEN):
                assert refusal_status(server, path) == 503
            status, body = transcribe(server, file=wav(0.1))
            assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
            assert request(server, "POST", LISTEN, wav(0.1))[0] == 503
            assert metric(server, "stopwav_streams_open") == 4
            assert metric(server, "stopwav_streams_refused_total", protocol="vosk", reason="full") == 1
            # The place is free as soon as the final text is there.
            sockets[0].send(pcm(0.1))
            sockets[0].send(END)
            assert [json.loads(sockets[0].recv(timeout=20)) for _ in range(2)] == [
                {"partial": "w1"},
                {"text": "w1 end"},
            ]
            assert say(server, [pcm(0.1)])[-1] == {"text": "w1 end"}
        until(lambda: metric(server, "stopwav_streams_open") == 0)


def test_the_token_is_needed_everywhere_but_for_the_health_and_is_never_shown() -> None:
    with BackgroundServer(engine("Counting"), token=TOKEN) as server:
        for path in ("/", "/vosk", "/sherpa", LISTEN):
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": TOKEN},
                {"Authorization": "Bearer "},
            ):
                assert refusal_status(server, path, headers) == 401
            for scheme in ("Bearer", "Token", "token"):
                with connect(server, path, additional_headers={"Authorization": f"{scheme} {TOKEN}"}):
                    pass
        status, body = transcribe(server, file=wav(0.1))
        assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
        for path in ("/metrics", "/v1/models"):
            assert request(server, "GET", path)[0] == 401
            status, body = request(server, "GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
            assert status == 200
            assert TOKEN not in body
        assert request(server, "GET", "/healthz")[0] == 200
        assert server.stop() == (0, "")


def test_a_client_that_sends_too_fast_is_held_back() -> None:
    """Its audio waits in its own sockets: neither the server's memory nor other streams suffer."""
    from websockets.asyncio.client import connect as open_socket

    async def flood(server: BackgroundServer, message: bytes, seconds: float) -> int:
        async with open_socket(server.url(), compression=None, close_timeout=0.1) as socket:
            sent = 0
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        await socket.send(message)
                        await asyncio.sleep(0)
                        sent += 1
            except TimeoutError:
                socket.transport.abort()
            return sent

    with BackgroundServer(engine("Counting", ",delay_s=0.05")) as server:
        say(server, [pcm(0.1)])
        before = memory_bytes(server)
        assert asyncio.run(flood(server, bytes(65_536), 1.5)) * 65_536 < 32e6
        # Messages without a byte cost memory too.
        asyncio.run(flood(server, b"", 1.0))
        begin_s = time.monotonic()
        assert say(server, [pcm(0.1)])[-1] == {"text": "w1 end"}
        assert time.monotonic() - begin_s < 5.0
        assert memory_bytes(server) - before < 30e6


def test_a_message_that_is_too_large_is_refused(counting: BackgroundServer) -> None:
    for path in ("/", "/sherpa", LISTEN):
        with connect(counting, path) as socket:
            socket.send(bytes(5 * 2**20))
            assert close_code(socket)[0] == 1009
    assert metric(counting, "stopwav_streams_failed_total", protocol="vosk", reason="too-large") == 1


def test_a_frame_that_is_said_to_be_huge_is_not_waited_for(counting: BackgroundServer) -> None:
    with open_raw(counting, "/") as raw:
        raw.sendall(b"\x82\xff" + (2**40).to_bytes(8, "big") + bytes(4))
        assert raw.recv(4) == b"\x88" + bytes([2]) + (1009).to_bytes(2, "big")


@pytest.fixture(scope="module")
def impatient() -> Iterator[BackgroundServer]:
    """A server that does not wait long."""
    with BackgroundServer(engine("Counting"), "--idle-limit", "0.5") as server:
        yield server


def test_silent_and_stalled_clients_are_closed_with_a_reason(impatient: BackgroundServer) -> None:
    with connect(impatient) as socket:
        assert close_code(socket) == (1008, "no message for 0.5 s")
    with connect(impatient, LISTEN) as socket:
        for _ in range(4):  # messages without audio count
            time.sleep(0.25)
            socket.send('{"type": "KeepAlive"}')
        error = json.loads(socket.recv(timeout=20))
        assert (error["type"], error["variant"]) == ("Error", "idle")
        assert close_code(socket)[0] == 1008
    assert metric(impatient, "stopwav_streams_failed_total", protocol="vosk", reason="idle") == 1


def test_a_client_that_does_not_read_is_ended(impatient: BackgroundServer) -> None:
    raw = open_raw(impatient, LISTEN)
    # Each is answered by an error of 300 bytes, of which none is read.
    messages = frame(1, b" " * 125) * 1000
    begin_s = time.monotonic()
    try:
        while True:
            raw.sendall(messages)
    except ConnectionError:
        assert time.monotonic() - begin_s < 15.0
    until(lambda: metric(impatient, "stopwav_streams_failed_total", protocol="deepgram", reason="stalled") == 1)
    until(lambda: metric(impatient, "stopwav_streams_open") == 0)


def test_an_upload_that_stops_half_way_is_ended(impatient: BackgroundServer) -> None:
    import socket as network

    with network.create_connection((impatient.host, impatient.port)) as raw:
        raw.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
            b'Content-Disposition: form-data; name="file"\r\n\r\nRIFF'
        )
        raw.settimeout(20)
        assert raw.recv(1000).startswith(b"HTTP/1.1 408")
    until(lambda: metric(impatient, "stopwav_streams_open") == 0)
