"""sherpa-onnx's protocols, online and offline: texts worked out by hand, servers that differ, and garbage."""

import asyncio
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import CHUNK, FakeSocket, Script, endpoints, failure, listen, listen_to, texts, websocket_server

from stopwav.errors import StopwavError
from stopwav.servers.protocol import Connection, Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.sherpa_server import SherpaOfflineConnection, SherpaOnlineConnection, SherpaServer
from stopwav.servers.websocket import WebSocket

pytest.importorskip("websockets")


def run(script: Any, chunks: int, **options: Any) -> tuple[list[ServerEvent], SherpaServer]:
    async def main() -> tuple[list[ServerEvent], SherpaServer]:
        async with websocket_server(script) as address:
            server = SherpaServer(address, **options)
            return await listen(server, chunks), server

    return asyncio.run(main())


def fail(script: Any, **options: Any) -> ServerError:
    async def main() -> ServerError:
        async with websocket_server(script) as address:
            return await failure(SherpaServer(address, **options))

    return asyncio.run(main())


def reply(text: str, segment: int, is_final: bool = False, **more: Any) -> dict[str, Any]:
    return {"text": text, "tokens": [], "timestamps": [], "segment": segment, "is_final": is_final, **more}


def test_online_segments_follow_each_other_and_a_final_one_is_an_endpoint() -> None:
    script = Script(
        per_chunk=[
            [reply("", 0)],
            [reply(" HELLO", 0), reply(" HELLO WORLD", 0)],
            [reply(" HELLO WORLD", 0, is_final=True)],
            [reply("", 1), reply(" GOOD", 1)],
        ],
        at_end=[reply(" GOODBYE", 1, is_final=True), "Done!"],
        ends=("Done",),
        code=None,
    )
    events, server = run(script, 4)
    assert texts(events) == ["", "HELLO", "HELLO WORLD", "HELLO WORLD", "HELLO WORLD", "HELLO WORLD GOOD",
                             "HELLO WORLD GOODBYE"]  # fmt: skip
    assert endpoints(events) == [False, False, False, True, False, False, False]
    assert np.array_equal(np.frombuffer(script.heard[0], "<f4"), CHUNK)
    assert script.heard[-1] == "Done"
    assert server.capabilities.endpoints
    assert server.capabilities.finals


def test_an_endpoint_that_comes_after_the_end_is_one_where_the_server_tells_it_from_the_answer() -> None:
    script = Script(
        at_end=[reply("one", 0, True, is_eof=False), reply("two", 1, True, is_eof=True), "Done!"], ends=("Done",)
    )
    events, _ = run(script, 2)
    assert texts(events) == ["one", "one two"]
    assert endpoints(events) == [True, False]


def test_a_final_segment_of_silence_is_no_endpoint() -> None:
    events, _ = run(Script(per_chunk=[[reply("", 0, True)]], at_end=["Done!"], ends=("Done",)), 1)
    assert endpoints(events) == [False]


def test_the_server_in_python_marks_nothing_as_final_and_closes_without_a_word() -> None:
    script = Script(
        per_chunk=[[{"text": "one", "segment": 0}], [{"text": "t", "segment": 1}]],
        at_end=[{"text": "two", "segment": 1}],
        ends=("Done",),
    )
    events, server = run(script, 2)
    assert texts(events) == ["one", "one t", "one two"]
    assert not any(endpoints(events))
    assert not server.capabilities.endpoints
    assert not server.capabilities.finals
    assert server.capabilities.partials


def test_online_a_normal_close_without_an_answer_to_the_end_is_early() -> None:
    error = fail(Script(per_chunk=[[reply("one", 0)]], ends=("Done",)))
    assert (error.reason, error.close_code) == ("closed", 1000)


def test_offline_the_audio_is_one_message_with_its_rate_and_length_and_one_answer_follows() -> None:
    heard: list[Any] = []

    async def answer(connection: Any) -> None:
        heard.append(await connection.recv())
        await connection.send(json.dumps({"text": " one two ", "timestamps": [], "tokens": [], "words": []}))
        heard.append(await connection.recv())

    events, server = run(answer, 3, mode="offline", rate=8_000)
    assert texts(events) == ["one two"]
    assert endpoints(events) == [False]
    message, end = heard
    assert struct.unpack("<ii", message[:8]) == (8_000, 3 * 4 * len(CHUNK))
    assert np.array_equal(np.frombuffer(message[8:], "<f4"), np.tile(CHUNK, 3))
    assert end == "Done"
    assert not server.capabilities.partials
    assert not server.capabilities.endpoints


def test_offline_a_server_that_closes_instead_of_answering_is_named_with_its_code() -> None:
    async def refuse(connection: Any) -> None:
        await connection.recv()
        await connection.close(1009, "Max utterance length is configured to 300 seconds")

    error = fail(refuse, mode="offline")
    assert (error.reason, error.close_code) == ("closed", 1009)
    assert "Max utterance length" in str(error)

    async def close(connection: Any) -> None:
        await connection.recv()

    error = fail(close, mode="offline")
    assert (error.reason, error.close_code) == ("closed", 1000)


WRONG = ["Done!", "hello", "[1]", "{}", '{"text": 3}', b'{"text": "binary", "segment": 0}', "[" * 9**5]


@pytest.mark.parametrize("message", [*WRONG, '{"text": "a", "segment": "0"}', '{"text": "a", "segment": 1e999}'])
def test_online_what_the_protocol_does_not_have_is_garbage(message: Any) -> None:
    error = fail(Script(at_once=[message], ends=("Done",)))
    assert error.reason == "garbage"


@pytest.mark.parametrize("message", WRONG)
def test_offline_what_the_protocol_does_not_have_is_garbage(message: Any) -> None:
    error = fail(Script(at_once=[message], ends=("Done",)), mode="offline")
    assert error.reason == "garbage"


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
REPLIES = st.dictionaries(st.sampled_from(["text", "segment", "is_final", "is_eof"]), VALUES, max_size=4)


@settings(max_examples=150)
@given(
    st.lists(REPLIES.map(json.dumps) | st.text(max_size=20) | st.binary(max_size=20) | st.just("Done!"), max_size=5),
    st.booleans(),
)
def test_whatever_comes_in_ends_in_texts_or_in_a_server_error(messages: list[Any], online: bool) -> None:
    socket = WebSocket(FakeSocket(messages), "sherpa-server")
    server = SherpaServer("ws://localhost")
    connection: Connection = SherpaOnlineConnection(socket, server) if online else SherpaOfflineConnection(socket, 1)
    outcome = listen_to(connection, 2)
    if isinstance(outcome, ServerError):
        assert outcome.reason in ("garbage", "closed")
    else:
        assert all(isinstance(event.text, str) and event.text.encode() is not None for event in outcome)


def test_it_is_made_by_its_name_with_a_mode_that_exists() -> None:
    server = make_server("sherpa-server:ws://localhost:6006,mode=offline")
    assert isinstance(server, Server)
    assert not server.capabilities.partials
    with pytest.raises(StopwavError, match="mode is online or offline"):
        make_server("sherpa-server:ws://localhost:6006,mode=both")
