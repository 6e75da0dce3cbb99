"""Vosk's protocol: texts worked out by hand, servers that differ, and whatever a server may send."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import RATE_HZ, FakeSocket, Script, endpoints, failure, listen, listen_to, texts, websocket_server

from stopwav.errors import StopwavError
from stopwav.servers.protocol import Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.vosk_server import END, VoskConnection, VoskServer
from stopwav.servers.websocket import WebSocket

pytest.importorskip("websockets")


def run(script: Script, chunks: int) -> list[ServerEvent]:
    async def main() -> list[ServerEvent]:
        async with websocket_server(script) as address:
            return await listen(VoskServer(address), chunks)

    return asyncio.run(main())


def fail(script: Script, chunks: int = 2) -> ServerError:
    async def main() -> ServerError:
        async with websocket_server(script) as address:
            return await failure(VoskServer(address), chunks)

    return asyncio.run(main())


def test_partials_grow_a_final_is_an_endpoint_and_the_answer_to_the_end_is_none() -> None:
    script = Script(
        per_chunk=[
            [{"partial": ""}],
            [{"partial": "hello"}],
            [{"text": "hello world", "result": [{"word": "hello", "start": 0.1, "end": 0.4, "conf": 1.0}]}],
            [{"partial": "good"}],
        ],
        at_end=[{"text": "goodbye"}],
        ends=(END,),
    )
    events = run(script, 4)
    assert texts(events) == ["", "hello", "hello world", "hello world good", "hello world goodbye"]
    assert endpoints(events) == [False, False, True, False, False]
    assert json.loads(script.heard[0]) == {"config": {"sample_rate": RATE_HZ}}
    assert [len(chunk) for chunk in script.heard[1:5]] == [3_200] * 4
    assert script.heard[5] == '{"eof" : 1}'
    times_ns = [event.at_ns for event in events]
    assert times_ns == sorted(times_ns)


def test_a_final_of_silence_is_no_endpoint() -> None:
    script = Script(per_chunk=[[{"text": ""}], [{"partial": "yes"}]], at_end=[{"text": "yes"}], ends=(END,))
    events = run(script, 2)
    assert texts(events) == ["", "yes", "yes"]
    assert not any(endpoints(events))


def test_a_final_reply_to_a_chunk_that_comes_after_the_end_was_said_is_an_endpoint_all_the_same() -> None:
    # Both chunks are answered only when the end is there too: two replies to chunks, then the one to the end.
    script = Script(at_end=[{"partial": "one"}, {"text": "one"}, {"text": "two"}], ends=(END,))
    events = run(script, 2)
    assert texts(events) == ["one", "one", "one two"]
    assert endpoints(events) == [False, True, False]


def test_the_stream_ends_with_the_last_reply_though_the_server_does_not_close() -> None:
    script = Script(per_chunk=[[{"partial": "a"}]], at_end=[{"text": "a b"}], ends=(END,), code=None)
    assert texts(run(script, 1)) == ["a", "a b"]


def test_a_server_that_replies_to_some_chunks_ends_when_it_closes() -> None:
    script = Script(per_chunk=[[], [{"partial": "a"}]], at_end=[{"text": "a b"}], ends=(END,))
    assert texts(run(script, 5)) == ["a", "a b"]


def test_a_server_in_c_answers_the_rate_and_sends_binary_replies_to_texts() -> None:
    # One reply more than chunks, and a final reply to the last chunk, which must not pass for the last of all.
    script = Script(
        at_once=[b'{"partial" : ""}'],
        per_chunk=[[{"partial": "one"}]],
        at_end=[{"text": "one"}, b'{"text" : "two"}'],
        ends=(END,),
    )
    events = run(script, 2)
    assert texts(events) == ["", "one", "one", "one two"]
    assert endpoints(events) == [False, False, True, False]


def test_of_alternatives_the_first_is_the_text() -> None:
    alternatives = {"alternatives": [{"confidence": 9.0, "text": "right"}, {"confidence": 1.0, "text": "write"}]}
    script = Script(per_chunk=[[{"partial": "ri"}]], at_end=[alternatives], ends=(END,))
    assert texts(run(script, 1)) == ["ri", "right"]


WRONG_TYPES = ["[]", "1", "null", "{}", '{"text": 1}', '{"partial": null}', '{"alternatives": [1]}']


@pytest.mark.parametrize("message", ["hello", *WRONG_TYPES, b"\xff\xfe", "[" * 9**5])
def test_what_the_protocol_does_not_have_is_garbage(message: str | bytes) -> None:
    error = fail(Script(per_chunk=[[message]], ends=(END,)))
    assert error.reason == "garbage"
    assert len(str(error)) < 250


@pytest.mark.parametrize(("code", "reason"), [(1011, "internal error"), (1000, "bye"), (1013, ""), (4400, "no")])
def test_a_close_before_the_end_has_its_code_and_reason(code: int, reason: str) -> None:
    async def close_at_once(connection: Any) -> None:
        await connection.recv()
        await connection.close(code, reason)

    async def main() -> ServerError:
        async with websocket_server(close_at_once) as address:
            return await failure(VoskServer(address))

    error = asyncio.run(main())
    assert (error.reason, error.close_code) == ("closed", code)
    assert reason in str(error)


def test_a_normal_close_after_a_partial_is_early_even_after_the_end() -> None:
    error = fail(Script(per_chunk=[[{"partial": "a"}], []], at_end=[{"partial": "a b"}], ends=(END,)), 2)
    assert (error.reason, error.close_code) == ("closed", 1000)
    assert "before the text was complete" in str(error)


@settings(max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.binary(max_size=30),
            st.recursive(
                st.none() | st.booleans() | st.floats() | st.text(max_size=9),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                    st.sampled_from(["text", "partial", "result", "alternatives"]), inner, max_size=3
                ),
                max_leaves=8,
            ).map(json.dumps),
        ),
        max_size=6,
    ),
    st.integers(0, 3),
)  # fmt: skip
def test_whatever_comes_in_ends_in_texts_or_in_a_server_error(messages: list[Any], chunks: int) -> None:
    outcome = listen_to(VoskConnection(WebSocket(FakeSocket(messages), "vosk-server")), chunks)
    if isinstance(outcome, ServerError):
        assert outcome.reason in ("garbage", "closed")
    else:
        assert all(isinstance(event.text, str) and event.text.encode() is not None for event in outcome)


def test_it_is_made_by_its_name_and_refuses_what_is_no_address() -> None:
    server = make_server("vosk-server:ws://localhost:2700,rate=8000")
    assert isinstance(server, Server)
    assert server.info.sample_rate_hz == 8_000
    assert server.capabilities.endpoints
    assert server.capabilities.word_times
    for address in ("localhost:2700", "http://localhost", "ws://", "ws://host:999999", "ws://[::1"):
        with pytest.raises(StopwavError, match="is not an address"):
            VoskServer(address)
