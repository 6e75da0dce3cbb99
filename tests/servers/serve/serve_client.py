"""Clients of the protocols as the tests need them, and what they look at in a server."""

import http.client
import io
import json
import re
import socket as network
import struct
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile

from stopwav.servers.serve.background import BackgroundServer

RATE_HZ = 16_000
END = '{"eof" : 1}'


def engine(name: str, options: str = "") -> str:
    """The spec of one of the engines for tests."""
    return f"{Path(__file__).parent / 'served_engines.py'}:{name}{options}"


def pcm(seconds: float, value: float = 0.0, rate_hz: int = RATE_HZ) -> bytes:
    """16-bit samples that are all the same."""
    return np.full(round(seconds * rate_hz), round(value * 32768), "<i2").tobytes()


def floats(seconds: float, value: float = 0.0) -> bytes:
    return np.full(round(seconds * RATE_HZ), value, "<f4").tobytes()


def wav(seconds: float, rate_hz: int = RATE_HZ) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(round(seconds * rate_hz), np.float32), rate_hz, format="WAV")
    return file.getvalue()


def connect(server: BackgroundServer, path: str = "/", **options: Any) -> Any:
    """A WebSocket; one that the server does not close is closed with the `with` block."""
    from websockets.sync.client import connect as open_socket

    return open_socket(server.url("ws", path), compression=None, max_size=None, open_timeout=20, **options)


def close_code(socket: Any) -> tuple[int, str]:
    """Read until the server closes the connection, and return its code and reason."""
    from websockets.exceptions import ConnectionClosed

    frame = None
    try:
        while True:
            socket.recv(timeout=20)
    except ConnectionClosed as closed:
        frame = closed.rcvd
    if frame is None:
        pytest.fail("the connection was lost")
    return frame.code, frame.reason


def open_raw(server: BackgroundServer, path: str) -> network.socket:
    """A WebSocket without a client around it, which can break every rule."""
    raw = network.create_connection((server.host, server.port), timeout=20)
    raw.sendall(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += raw.recv(1)
    assert b" 101 " in answer
    return raw


def frame(opcode: int, payload: bytes) -> bytes:
    """A frame as clients send it, with a mask of zeros."""
    size = struct.pack("!B", 128 + len(payload)) if len(payload) < 126 else struct.pack("!BH", 254, len(payload))
    return bytes([128 + opcode]) + size + bytes(4) + payload


def reset(raw: network.socket) -> None:
    """Close a connection by a reset, as when a client dies."""
    raw.setsockopt(network.SOL_SOCKET, network.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def request(
    server: BackgroundServer, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """The status and body of an HTTP request."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def form(**fields: str | bytes) -> tuple[bytes, dict[str, str]]:
    """A multipart form and its header."""
    boundary = uuid.uuid4().hex
    parts = []
    for name, value in fields.items():
        file = '; filename="a.wav"' if name == "file" else ""
        content = value if isinstance(value, bytes) else value.encode()
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content)
    body = b"\r\n".join([*parts, f"--{boundary}--\r\n".encode()])
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def transcribe(server: BackgroundServer, **fields: str | bytes) -> tuple[int, str]:
    """The answer to an upload to OpenAI's address."""
    body, headers = form(**fields)
    return request(server, "POST", "/v1/audio/transcriptions", body, headers)


def metric(server: BackgroundServer, name: str, **labels: str) -> float:
    """The value of a metric; 0 where it has not been counted yet."""
    _, page = request(server, "GET", "/metrics")
    for line in page.splitlines():
        found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
            return float(found[2])
    return 0.0


def say(server: BackgroundServer, chunks: list[bytes], path: str = "/") -> list[dict[str, Any]]:
    """The replies to a stream of Vosk's protocol, the final text last."""
    with connect(server, path) as socket:
        replies = []
        for message in [*chunks, END]:
            socket.send(message)
            replies.append(json.loads(socket.recv(timeout=20)))
        assert close_code(socket) == (1000, "")
    return replies


def memory_bytes(server: BackgroundServer) -> int:
    """The resident memory of a server and its workers."""
    process = psutil.Process(server.pid)
    return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])


def worker_pids(server: BackgroundServer) -> list[int]:
    """The processes with an engine."""
    return [
        child.pid
        for child in psutil.Process(server.pid).children()
        if "stopwav.measure.process" in " ".join(child.cmdline())
    ]


def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for something that happens soon."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.02)
