"""Messages that no client would send: the server stays up, keeps its size, and other streams notice nothing."""

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_client import (
    END,
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
from served_engines import words

from stopwav.servers.serve.background import BackgroundServer

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

LISTEN = "/v1/listen?encoding=linear16&sample_rate=16000&interim_results=true"
# What the run of every day tries per protocol; a soak tries 10,000.
EXAMPLES = 75
# What a server may grow by, whatever it is sent.
MOST_GROWTH_BYTES = 50e6

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
controls = st.sampled_from(
    ["config", "eof", "reset", "type", "sample_rate", "Finalize", "CloseStream", "KeepAlive", "Done"]
)
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["Done", END, '{"type":"Finalize"}', '{"type":"CloseStream"}', '{"config":{"sample_rate":8000}}']),
    st.dictionaries(controls, values | controls, max_size=3).map(json.dumps),
    st.builds(lambda rate: json.dumps({"config": {"sample_rate": rate}}), values),
    st.integers(1, 20_000).map(lambda depth: "[" * depth),
)
sound = st.binary(max_size=200) | st.integers(0, 4000).map(bytes)
# Whole messages, and frames that break the rules of WebSocket.
frames = st.one_of(
    sound.map(lambda data: frame(2, data)),
    texts.map(lambda text: frame(1, text.encode("utf-8", "surrogatepass")[:60_000])),
    st.builds(frame, st.integers(0, 15), st.binary(max_size=130)),
    st.binary(max_size=40),
)
conversations = st.lists(frames, max_size=5)
bodies = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda name, value, file: (
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + file
            + b'\r\n--b\r\nContent-Disposition: form-data; name="' + name.encode("utf-8", "replace") + b'"\r\n\r\n'
            + value.encode("utf-8", "replace") + b"\r\n--b--\r\n"
        ),
        st.sampled_from(["stream", "response_format", "language", "model"]) | st.text(max_size=8),
        st.sampled_from(["true", "json", "text", "verbose_json"]) | st.text(max_size=8),
        st.binary(max_size=100) | st.integers(0, 400).map(lambda size: wav(0.01)[:size]),
    ),
)  # fmt: skip


def talk(server: BackgroundServer, path: str, conversation: list[bytes]) -> None:
    """Send it all, read what comes for a moment, and go away."""
    with open_raw(server, path) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(b"".join(conversation) + frame(8, (1000).to_bytes(2, "big")))
        # Most are answered by then; a frame that swallowed the one that closes never is.
        raw.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            while raw.recv(65_536):
                pass


def upload(server: BackgroundServer, body: bytes) -> None:
    """Send a body that may be a form."""
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    status, _ = request(server, "POST", "/v1/audio/transcriptions", body, headers)
    assert status in (200, 400)


@contextlib.contextmanager
def another_stream(server: BackgroundServer) -> Iterator[None]:
    """Hold a stream meanwhile, whose texts have to be those of its own audio."""
    ended, wrong = threading.Event(), []

    def hold() -> None:
        with connect(server) as socket:
            for number in itertools.count(1):
                socket.send(pcm(0.1))
                reply = json.loads(socket.recv(timeout=20))
                if reply != {"partial": words(1600 * number)}:
                    wrong.append(reply)
                if ended.wait(0.05) or wrong:
                    return

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
    assert not thread.is_alive()
    assert wrong == []


def check(
    server: BackgroundServer,
    examples: int,
    strategy: st.SearchStrategy[Any],
    send: Callable[[BackgroundServer, Any], None],
) -> None:
    say(server, [pcm(0.1)])
    before = memory_bytes(server)
    with another_stream(server):

        @settings(max_examples=examples)
        @given(strategy)
        def try_one(example: Any) -> None:
            send(server, example)

        try_one()
    until(lambda: metric(server, "stopwav_streams_open") == 0)
    growth_bytes = memory_bytes(server) - before
    print(f"{examples} examples: the server and its worker grew by {growth_bytes / 1e6:.1f} MB")
    assert growth_bytes < MOST_GROWTH_BYTES
    assert metric(server, "stopwav_worker_restarts_total") == 0
    for protocol in ("vosk", "sherpa", "deepgram", "openai"):
        assert metric(server, "stopwav_streams_failed_total", protocol=protocol, reason="internal") == 0
    assert say(server, [pcm(0.1)])[-1] == {"text": "w1 end"}


def fuzz(server: BackgroundServer, protocol: str, examples: int) -> None:
    if protocol == "openai":
        check(server, examples, bodies, upload)
    else:
        path = {"vosk": "/", "sherpa": "/sherpa", "deepgram": LISTEN}[protocol]
        check(server, examples, conversations, lambda server, conversation: talk(server, path, conversation))


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[BackgroundServer]:
    """A server that may not print a word, whatever happens."""
    with BackgroundServer(engine("Counting"), "--idle-limit", "60") as server:
        yield server
        assert server.stop() == (0, "")


@pytest.mark.parametrize("protocol", ["vosk", "sherpa", "deepgram", "openai"])
def test_no_message_disturbs_the_server(fuzzed: BackgroundServer, protocol: str) -> None:
    fuzz(fuzzed, protocol, EXAMPLES)


@pytest.mark.parametrize("name", ["\U000c2d5c;\x9dS;\U000da6c9", "a;b;c", ";"])
def test_a_header_of_a_client_is_not_printed(fuzzed: BackgroundServer, name: str) -> None:
    assert transcribe(fuzzed, **{name: "x"})[0] == 400


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("protocol", ["vosk", "sherpa", "deepgram", "openai"])
def test_ten_thousand_messages_do_not_disturb_the_server(protocol: str) -> None:
    with BackgroundServer(engine("Counting"), "--idle-limit", "60") as server:
        fuzz(server, protocol, 10_000)
        assert metric(server, "stopwav_streams_accepted_total", protocol=protocol) >= 10_000
        assert server.stop() == (0, "")
