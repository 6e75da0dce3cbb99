"""OpenAI's realtime protocol and vLLM's form of it: scripted sessions on loopback, every way to fail."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.servers.openai_realtime import OpenAIRealtime
from stopwav.servers.protocol import Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server

serving = pytest.importorskip("websockets.asyncio.server")

KEY = "sk-proj-0123456789abcdef"
CHUNK = np.array([0.0, 0.5, -1.0], np.float32)
Handler = Callable[[Any], Awaitable[None]]


@asynccontextmanager
async def websocket_server(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback, at the address that is yielded."""
    async with serving.serve(handler, "127.0.0.1", 0, close_timeout=0.1) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime"


async def stream(server: Server, chunks: int = 2, awaited: int = 0) -> list[ServerEvent]:
    """Send chunks and, once a number of events came in, the end; return all events."""
    connection = await server.connect()
    events: list[ServerEvent] = []

    async def read() -> None:
        async for event in connection.events():
            events.append(event)

    reader = asyncio.create_task(read())
    try:
        for _ in range(chunks):
            await connection.send(server.encode(CHUNK))
        while len(events) < awaited and not reader.done():
            await asyncio.sleep(0.001)
        await connection.end()
        await reader
        return events
    except ServerError:
        await reader  # what the server said before is the reason
        raise
    finally:
        reader.cancel()
        begin = time.perf_counter()
        await connection.close()
        assert time.perf_counter() - begin < 1.1


def run(handler: Handler, chunks: int = 2, awaited: int = 0, **options: Any) -> list[ServerEvent]:
    async def session() -> list[ServerEvent]:
        async with websocket_server(handler) as address:
            return await stream(OpenAIRealtime(address, **options), chunks, awaited)

    return asyncio.run(asyncio.wait_for(session(), 10))


def failure(handler: Handler, **options: Any) -> ServerError:
    with pytest.raises(ServerError) as caught:
        run(handler, **options)
    return caught.value


def script(before: list[Any], after: list[Any], end: str = "input_audio_buffer.commit") -> Handler:
    """Send the first messages after the first chunk, and the others after the end; then wait for the client to go."""

    async def handle(socket: Any) -> None:
        sent_before = False
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "input_audio_buffer.append" and not sent_before:
                sent_before = True
                await send_all(socket, before)
            elif event["type"] == end and (sent_before or not before) and event.get("final", True):
                await send_all(socket, after)

    return handle


async def send_all(socket: Any, messages: list[Any]) -> None:
    for message in messages:
        await socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))


def committed(item: str) -> dict[str, str]:
    return {"type": "input_audio_buffer.committed", "item_id": item}


def stopped(item: str) -> dict[str, str]:
    return {"type": "input_audio_buffer.speech_stopped", "item_id": item}


def delta(item: str, text: str | None) -> dict[str, Any]:
    return {"type": "conversation.item.input_audio_transcription.delta", "item_id": item, "delta": text}


def completed(item: str, text: str) -> dict[str, Any]:
    return {"type": "conversation.item.input_audio_transcription.completed", "item_id": item, "transcript": text}


NOTHING_LEFT = {"type": "error", "error": {"code": "input_audio_buffer_commit_empty", "message": "buffer is empty"}}
GREETING = {"type": "session.created", "session": {"id": "s"}}


def texts(events: list[ServerEvent]) -> list[str | None]:
    return [event.text for event in events]


def test_the_session_is_opened_as_the_protocol_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen: dict[str, Any] = {"messages": []}

    async def handle(socket: Any) -> None:
        seen["path"], seen["authorization"] = socket.request.path, socket.request.headers.get("Authorization")
        async for message in socket:
            seen["messages"].append(json.loads(message))
            if "commit" in message:
                await send_all(socket, [GREETING, committed("1"), completed("1", "a")])

    assert texts(run(handle, chunks=1, model="m", language="de", prompt="names")) == ["a"]
    assert seen["path"] == "/v1/realtime?intent=transcription"
    assert seen["authorization"] == f"Bearer {KEY}"
    assert seen["messages"] == [
        {
            "type": "session.update",
            "session": {
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24_000},
                        "transcription": {"model": "m", "language": "de", "prompt": "names"},
                        "turn_detection": {"type": "server_vad"},
                    }
                },
            },
        },
        # 0, half of full scale and minus full scale.
        {
            "type": "input_audio_buffer.append",
            "audio": base64.b64encode(struct.pack("<hhh", 0, 16384, -32768)).decode(),
        },
        {"type": "input_audio_buffer.commit"},
    ]


def test_options_change_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    seen: dict[str, Any] = {}

    async def handle(socket: Any) -> None:
        seen["path"], seen["has key"] = socket.request.path, "Authorization" in socket.request.headers
        seen["input"] = json.loads(await socket.recv())["session"]["audio"]["input"]
        await send_all(socket, [committed("1"), completed("1", "a")])
        await socket.wait_closed()

    run(handle, chunks=0, turn_detection="none", model_in_address=True, rate=16_000)
    assert seen["path"] == "/v1/realtime?intent=transcription&model=whisper-1"
    assert not seen["has key"]
    assert seen["input"]["turn_detection"] is None
    assert seen["input"]["format"]["rate"] == 16_000


def test_every_event_has_the_whole_text_and_ends_of_utterances_are_told() -> None:
    before = [
        GREETING, stopped("1"), committed("1"), delta("1", "The"), delta("1", " cat"), completed("1", "The cat."),
    ]  # fmt: skip
    after = [committed("2"), delta("2", "Sat"), completed("2", "Sat down.\n")]
    begin_ns = time.perf_counter_ns()
    events = run(script(before, after))
    assert texts(events) == [None, "The", "The cat", "The cat.", "The cat. Sat", "The cat. Sat down."]
    assert [event.endpoint for event in events] == [True, False, False, False, False, False]
    times = [event.at_ns for event in events]
    assert times == sorted(times)
    assert begin_ns < times[0]


def test_items_are_placed_by_the_order_in_which_they_were_committed() -> None:
    before = [stopped("1"), committed("1"), stopped("2"), committed("2"), delta("2", "se")]
    after = [committed("3"), completed("3", "third"), completed("1", "first"), completed("2", "second")]
    assert texts(run(script(before, after))) == [
        None, None, "se", "se third", "first se third", "first second third",
    ]  # fmt: skip


def test_items_that_are_only_created_have_their_place_but_are_not_waited_for() -> None:
    created = [{"type": "conversation.item.created", "item": {"id": item}} for item in ("1", "2")]
    after = [*created, committed("2"), delta("1", "a"), completed("2", "b")]
    assert texts(run(script([], after))) == ["a", "a b"]


def test_a_server_that_took_all_audio_before_the_end_says_that_nothing_is_left() -> None:
    before = [stopped("1"), committed("1")]
    assert texts(run(script(before, [NOTHING_LEFT, completed("1", "all")]))) == [None, "all"]
    assert texts(run(script(before, [completed("1", "all"), NOTHING_LEFT]))) == [None, "all"]
    assert run(script([], [NOTHING_LEFT])) == []


def test_a_part_that_the_server_ended_is_not_the_answer_to_the_end_of_the_audio() -> None:
    """Its own commit and ours may cross on the way: the text is complete only with the second."""
    after = [stopped("1"), committed("1"), completed("1", "one"), committed("2"), completed("2", "two")]
    assert texts(run(script([], after))) == [None, "one", "one two"]


def test_without_detection_every_commit_is_ours() -> None:
    events = run(script([], [stopped("1"), committed("1"), completed("1", "one")]), turn_detection="none")
    assert [(event.text, event.endpoint) for event in events] == [("one", False)]


def test_a_server_that_does_not_say_what_it_commits_ends_with_the_next_text() -> None:
    handler = script([completed("1", "one")], [delta("2", "tw"), completed("2", "two")])
    assert texts(run(handler, awaited=1)) == ["one", "one tw", "one two"]


def test_late_deltas_and_events_without_a_text_change_nothing() -> None:
    after = [
        committed("1"), committed("2"), completed("1", "a"), delta("1", "late"), delta("2", None),
        {"type": "rate_limits.updated"}, {"type": "input_audio_buffer.cleared"},
        {"type": "conversation.item.input_audio_transcription.segment", "item_id": "1", "text": "a"},
        completed("2", ""),
    ]  # fmt: skip
    assert texts(run(script([], after))) == ["a", "a", "a"]


def test_errors_are_the_servers_own() -> None:
    stated = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such model", "code": "x"}}
    error = failure(script([stated], []))
    assert (error.reason, "no such model" in str(error)) == ("error", True)
    # Before the end of the audio nothing was asked for.
    assert failure(script([NOTHING_LEFT], []), awaited=1).reason == "error"
    failed = {
        "type": "conversation.item.input_audio_transcription.failed", "item_id": "1", "error": {"message": "too loud"},
    }  # fmt: skip
    error = failure(script([], [committed("1"), failed]))
    assert (error.reason, "too loud" in str(error)) == ("error", True)


@pytest.mark.parametrize("dialect", ["openai", "vllm"])
def test_a_server_that_closes_early_is_named_with_its_code(dialect: str) -> None:
    def closing(code: int, reason: str = "") -> Handler:
        async def handle(socket: Any) -> None:
            await socket.recv()
            await socket.close(code, reason)

        return handle

    assert (failure(closing(1000), dialect=dialect)).reason == "closed"
    error = failure(closing(4400, "no such thing"), dialect=dialect)
    assert (error.reason, error.close_code, "no such thing" in str(error)) == ("closed", 4400, True)

    async def abort(socket: Any) -> None:
        await socket.recv()
        socket.transport.abort()

    error = failure(abort, dialect=dialect)
    assert (error.reason, error.close_code) == ("closed", None)


def test_a_refusal_has_its_status() -> None:
    async def session() -> None:
        refuse = lambda connection, request: connection.respond(401, "no")  # noqa: E731
        async with serving.serve(lambda socket: None, "127.0.0.1", 0, process_request=refuse) as server:
            await OpenAIRealtime(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}").connect()

    with pytest.raises(ServerError) as caught:
        asyncio.run(asyncio.wait_for(session(), 10))
    assert (caught.value.reason, caught.value.close_code) == ("refused", 401)
    with pytest.raises(ServerError) as caught:
        asyncio.run(OpenAIRealtime("ws://127.0.0.1:9/v1/realtime").connect())
    assert caught.value.reason == "refused"


@pytest.mark.parametrize(
    "message",
    [
        "no json", "[1]", "{}", '{"type": 1}', b"\xff\x00", "[" * 100_000,
        {"type": "input_audio_buffer.committed", "item_id": 1},
        {"type": "conversation.item.created", "item": {"id": 2}},
        {"type": "conversation.item.input_audio_transcription.completed", "item_id": "1"},
        {"type": "conversation.item.input_audio_transcription.delta", "item_id": None, "delta": "a"},
        {"type": "conversation.item.input_audio_transcription.delta", "item_id": "1", "delta": {}},
    ],
)  # fmt: skip
def test_what_the_protocol_does_not_have_is_garbage(message: Any) -> None:
    assert failure(script([message], [])).reason == "garbage"


@pytest.mark.parametrize("message", ["no json", "{}", {"type": "transcription.delta"}, {"type": "transcription.done"}])
def test_what_vllm_does_not_have_is_garbage(message: Any) -> None:
    assert failure(script([message], []), dialect="vllm").reason == "garbage"


def test_a_key_is_shown_nowhere_even_where_the_server_sends_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in repr(vars(OpenAIRealtime("ws://127.0.0.1:9")))

    async def close(socket: Any) -> None:
        await socket.recv()
        await socket.close(4401, f"bad key {KEY}")

    async def close_with_much_to_say(socket: Any) -> None:
        await socket.recv()
        await socket.close(4401, "x" * 70 + KEY)

    errors = [
        failure(handler, dialect=dialect)
        for dialect in ("openai", "vllm")
        for handler in (
            close,
            close_with_much_to_say,
            script([{"type": "error", "error": {"message": f"bad key {KEY}"}}], []),
            script([{"type": "error", "error": "x" * 70 + KEY}], []),
            script([{"key": KEY}], []),
            script([KEY], []),
        )
    ]
    assert all("sk-p" not in str(error) and "sk-p" not in repr(error) for error in errors)
    assert texts(run(script([], [committed("1"), completed("1", f"a {KEY}")]))) == ["a ***"]


def test_vllm_is_told_the_model_and_to_begin_before_the_audio_comes() -> None:
    seen: list[Any] = []

    async def handle(socket: Any) -> None:
        assert socket.request.path == "/v1/realtime"
        await send_all(socket, [{"type": "session.created", "id": "s"}])
        async for message in socket:
            event = json.loads(message)
            seen.append({name: value for name, value in event.items() if name != "audio"})
            if event["type"] == "input_audio_buffer.append":
                await send_all(socket, [{"type": "transcription.delta", "delta": " la"}])
            elif event.get("final"):
                await send_all(socket, [{"type": "transcription.done", "text": " la la land", "usage": {}}])

    events = run(handle, dialect="vllm", model="voxtral")
    assert texts(events) == ["la", "la la", "la la land"]
    assert seen == [
        {"type": "session.update", "model": "voxtral"},
        {"type": "input_audio_buffer.commit"},
        {"type": "input_audio_buffer.append"},
        {"type": "input_audio_buffer.append"},
        {"type": "input_audio_buffer.commit", "final": True},
    ]


def test_vllm_states_errors_as_texts_and_must_not_be_done_before_the_end() -> None:
    error = failure(script([{"type": "error", "error": "Invalid audio data", "code": "x"}], []), dialect="vllm")
    assert (error.reason, "Invalid audio data" in str(error)) == ("error", True)

    async def session() -> None:
        async with websocket_server(script([{"type": "transcription.done", "text": "so far"}], [])) as address:
            server = OpenAIRealtime(address, dialect="vllm")
            connection = await server.connect()
            try:
                await connection.send(server.encode(CHUNK))
                async for _ in connection.events():
                    pass
            finally:
                await connection.close()

    with pytest.raises(ServerError, match="before the audio had ended") as caught:
        asyncio.run(asyncio.wait_for(session(), 10))
    assert caught.value.reason == "closed"


@pytest.mark.parametrize("dialect", ["openai", "vllm"])
def test_an_empty_chunk_is_not_sent(dialect: str) -> None:
    seen: list[str] = []

    async def handle(socket: Any) -> None:
        async for message in socket:
            seen.append(json.loads(message)["type"])

    async def session() -> None:
        async with websocket_server(handle) as address:
            server = OpenAIRealtime(address, dialect=dialect)
            connection = await server.connect()
            await connection.send(server.encode(CHUNK[:0]))
            assert await connection.ping() > 0
            await connection.close()

    asyncio.run(asyncio.wait_for(session(), 10))
    assert "input_audio_buffer.append" not in seen


@pytest.mark.parametrize("dialect", ["openai", "vllm"])
@pytest.mark.parametrize("moment", range(4))
def test_a_connection_can_be_closed_at_any_moment(dialect: str, moment: int) -> None:
    async def stall(socket: Any) -> None:
        await socket.wait_closed()

    async def read(events: AsyncIterator[ServerEvent]) -> None:
        async for _ in events:
            pass

    async def session() -> None:
        async with websocket_server(stall) as address:
            server = OpenAIRealtime(address, dialect=dialect)
            connection = await server.connect()
            reader = asyncio.create_task(read(connection.events()))
            if moment > 0:
                await connection.send(server.encode(CHUNK))
            if moment > 1:
                await connection.end()
            if moment > 2:
                await asyncio.sleep(0.05)
            begin = time.perf_counter()
            await connection.close()
            await connection.close()
            assert time.perf_counter() - begin < 1.1
            with pytest.raises(ServerError):
                await asyncio.wait_for(reader, 1.0)
            with pytest.raises(ServerError):
                await connection.send(server.encode(CHUNK))
            assert await connection.ping() is None

    asyncio.run(asyncio.wait_for(session(), 10))


def test_capabilities_and_description_say_what_is_so() -> None:
    server = make_server("openai-realtime:ws://localhost:8000/v1/realtime,model=whisper-1,language=en")
    assert isinstance(server, Server)
    assert server.capabilities.endpoints
    assert server.capabilities.sample_rates_hz == (24_000,)
    assert (server.info.sample_rate_hz, server.info.model, server.info.language) == (24_000, "whisper-1", "en")
    assert not make_server("openai-realtime:ws://x,turn_detection=none").capabilities.endpoints
    server = make_server("openai-realtime:ws://x/v1/realtime,dialect=vllm,model=voxtral")
    assert (server.info.sample_rate_hz, server.capabilities.endpoints) == (16_000, False)


@pytest.mark.parametrize(
    "spec",
    ["openai-realtime:http://x", "openai-realtime:ws://x,dialect=azure", "openai-realtime:ws://x,turn_detection=yes"],
)
def test_a_spec_that_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(StopwavError):
        make_server(spec)


KINDS = [
    "input_audio_buffer.committed", "input_audio_buffer.speech_stopped", "conversation.item.created", "error",
    "conversation.item.input_audio_transcription.delta", "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed", "transcription.delta", "transcription.done",
    "session.updated",
]  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["id", "message", "code"]), scalars)
fields = st.dictionaries(st.sampled_from(["item_id", "delta", "transcript", "text", "error", "item"]), values)
odd_events = st.builds(lambda kind, rest: json.dumps({**rest, "type": kind}), st.sampled_from(KINDS) | scalars, fields)
plausible = st.sampled_from([committed, stopped]).flatmap(lambda make: st.sampled_from("123").map(make)) | st.builds(
    lambda make, item, text: make(item, text),
    st.sampled_from([delta, completed]),
    st.sampled_from("123"),
    st.text(max_size=5),
)
messages = st.lists(odd_events | plausible.map(json.dumps) | st.text(max_size=9) | st.binary(max_size=9), max_size=6)


def test_whatever_comes_in_there_are_texts_or_a_server_error() -> None:
    """One server for all examples; it sends what is in the box after the end, and closes."""
    box: dict[str, Any] = {}

    async def handle(socket: Any) -> None:
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "input_audio_buffer.commit" and ("final" in event or box["dialect"] == "openai"):
                await send_all(socket, box["messages"])
                await socket.close(box["code"])

    async def one(address: str) -> None:
        try:
            events = await asyncio.wait_for(stream(OpenAIRealtime(address, dialect=box["dialect"]), 1), 5)
        except ServerError:
            return
        assert all(event.text is None or isinstance(event.text, str) for event in events)

    with asyncio.Runner() as runner:
        context = websocket_server(handle)
        address = runner.run(context.__aenter__())

        @settings(max_examples=150)
        @given(messages=messages, dialect=st.sampled_from(["openai", "vllm"]), code=st.sampled_from([1000, 1011, 4000]))
        def try_one(messages: list[Any], dialect: str, code: int) -> None:
            box.update(messages=messages, dialect=dialect, code=code)
            runner.run(one(address))

        try_one()
        runner.run(context.__aexit__(None, None, None))
