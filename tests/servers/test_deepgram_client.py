"""Deepgram's protocol: finals in any order, endpoints, keys that are never shown, and servers that have less of it."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import FakeSocket, Script, endpoints, failure, listen, listen_to, texts, websocket_server

from stopwav.errors import StopwavError
from stopwav.servers.api_key import ApiKey
from stopwav.servers.deepgram import Deepgram, DeepgramConnection
from stopwav.servers.protocol import Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.websocket import WebSocket

pytest.importorskip("websockets")

END = '{"type": "CloseStream"}'
KEY = "0123456789abcdef0123456789abcdef01234567"
SUMMARY = {"type": "Metadata", "duration": 0.2, "channels": 1}


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPGRAM_API_KEY", raising=False)


def result(text: str, start: float, duration: float, final: bool = False, **more: Any) -> dict[str, Any]:
    channel = {"alternatives": [{"transcript": text, "confidence": 0.9, "words": []}]}
    return {"type": "Results", "channel_index": [0, 1], "start": start, "duration": duration, "is_final": final,
            "speech_final": False, "channel": channel, **more}  # fmt: skip


def run(script: Script, chunks: int = 2, **options: Any) -> list[ServerEvent]:
    async def main() -> list[ServerEvent]:
        async with websocket_server(script) as address:
            return await listen(Deepgram(address, **options), chunks)

    return asyncio.run(main())


def fail(script: Any, chunks: int = 2, **settings: Any) -> ServerError:
    async def main() -> ServerError:
        async with websocket_server(script, **settings) as address:
            return await failure(Deepgram(address), chunks)

    return asyncio.run(main())


def test_interim_results_are_replaced_and_finals_stay() -> None:
    script = Script(
        per_chunk=[
            [result("hello", 0.0, 1.0), result("hello word", 0.0, 1.5)],
            [result("hello world", 0.0, 2.0, True), result("how", 2.0, 0.5)],
        ],
        at_end=[result("how are you", 2.0, 1.0, True), SUMMARY],
        ends=(END,),
        code=None,
    )
    assert texts(run(script)) == ["hello", "hello word", "hello world", "hello world how", "hello world how are you"]
    assert [len(chunk) for chunk in script.heard[:-1]] == [3_200, 3_200]


def test_finals_out_of_order_are_placed_by_their_start() -> None:
    messages = [
        result("one", 0.0, 1.0, True),
        result("three", 2.0, 1.0, True),
        result("four", 3.0, 0.5),
        result("two", 1.0, 1.0, True),  # late: the partial behind it stays
        result("four five", 3.0, 1.0, True),
    ]
    events = run(Script(at_once=messages, at_end=[SUMMARY], ends=(END,)))
    assert texts(events) == ["one", "one three", "one three four", "one two three four", "one two three four five"]


def test_finals_of_one_start_follow_each_other_and_those_without_one_come_last() -> None:
    nowhere = {name: value for name, value in result("four", 0, 0, True).items() if name not in ("start", "duration")}
    messages = [result("one", 0.0, 2.0, True), result("two", 2.0, 0.0, True), result("three", 2.0, 0.0, True), nowhere]
    events = run(Script(at_once=messages, at_end=[SUMMARY], ends=(END,)))
    assert texts(events)[-1] == "one two three four"


def test_the_end_of_speech_and_of_an_utterance_are_endpoints_and_silence_is_none() -> None:
    messages = [
        result("", 0.0, 1.0, True, speech_final=True),
        {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 1.0},
        result("one", 1.0, 1.0, True),
        result("", 2.0, 0.5, True, speech_final=True),
        result("", 2.2, 0.3, True, speech_final=True),
        {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 1.8},
        result("", 2.5, 0.5, True, speech_final=True),
        result("two", 3.0, 0.5, True, speech_final=True, from_finalize=True),
    ]
    events = run(Script(at_once=messages, at_end=[SUMMARY], ends=(END,)))
    assert texts(events) == ["", None, "one", "one", "one", None, "one", "one two"]
    assert endpoints(events) == [False, False, False, True, False, True, False, False]


def test_after_the_end_only_what_stops_short_of_it_is_an_endpoint() -> None:
    # Ten chunks are one second: the first result is about a half of it, the second reaches up to the end.
    rest = [result("one", 0.0, 0.5, True, speech_final=True), result("two", 0.5, 0.5, True, speech_final=True)]
    assert endpoints(run(Script(at_end=[*rest, SUMMARY], ends=(END,)), 10)) == [True, False]


def test_a_server_without_a_summary_is_done_when_it_closes() -> None:
    script = Script(per_chunk=[[result("one", 0.0, 0.1)]], at_end=[result("one two", 0.0, 0.2, True)], ends=(END,))
    assert texts(run(script)) == ["one", "one two"]
    assert texts(run(Script(ends=(END,)))) == []


def test_a_summary_of_no_audio_is_not_the_last_message() -> None:
    beginning = {"type": "Metadata", "duration": 0.0}
    script = Script(at_end=[beginning, result("one", 0.0, 0.2, True), SUMMARY], ends=(END,), code=None)
    assert texts(run(script)) == ["one"]


def test_finalize_is_never_sent_so_that_servers_without_it_do_not_close() -> None:
    async def strict(connection: Any) -> None:
        async for message in connection:
            if isinstance(message, str):
                if json.loads(message)["type"] != "CloseStream":
                    await connection.close(4400, "Finalize is unsupported")
                await connection.send(json.dumps(result("one", 0.0, 0.2, True)))
                return

    assert texts(run(strict)) == ["one"]  # type: ignore[arg-type]


def test_an_empty_chunk_is_not_sent_because_it_would_end_the_stream() -> None:
    async def main(script: Script) -> None:
        async with websocket_server(script) as address:
            connection = await Deepgram(address).connect()
            await connection.send(b"")
            await connection.send(b"\0\0")
            await connection.end()
            _ = [event async for event in connection.events()]
            await connection.close()

    script = Script(at_end=[SUMMARY], ends=(END,))
    asyncio.run(main(script))
    assert script.heard == [b"\0\0", END]


def test_options_are_in_the_query_and_the_key_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPGRAM_API_KEY", f"{KEY}\n")
    script = Script(at_end=[SUMMARY], ends=(END,))
    run(script, model="nova-3", language="en", endpointing=300, utterance_end_ms=1000, punctuate=False)
    parts = urlsplit(script.path)
    assert parts.path == "/v1/listen"
    assert {name: values[0] for name, values in parse_qs(parts.query).items()} == {
        "encoding": "linear16", "sample_rate": "16000", "channels": "1", "model": "nova-3", "language": "en",
        "interim_results": "true", "endpointing": "300", "utterance_end_ms": "1000", "punctuate": "false",
    }  # fmt: skip
    assert script.headers["Authorization"] == f"Token {KEY}"


def test_without_a_key_there_is_no_header() -> None:
    script = Script(at_end=[SUMMARY], ends=(END,))
    run(script)
    assert "Authorization" not in script.headers


def test_the_key_is_shown_nowhere_though_the_server_sends_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPGRAM_API_KEY", KEY)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    scripts = [
        Script(at_once=[{"type": "Error", "description": f"bad key {KEY}"}], ends=(END,)),
        Script(at_once=[f'{{"type": "Error", "description": "bad key {escaped}"}}'], ends=(END,)),
        Script(at_once=[f"bad key {KEY}"], ends=(END,)),
        Script(at_once=[f"{'x' * 60}{KEY}"], ends=(END,)),  # cut off in the middle of the key
        Script(at_once=[f"bad key {KEY}".encode()], ends=(END,)),
        Script(code=4001, reason=f"bad key {KEY}", ends=(END,)),
    ]
    for script in scripts:
        error = fail(script)
        assert KEY[:8] not in f"{error} {error!r} {error.args}"
        assert error.reason in ("error", "garbage", "closed")

    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(401, f"invalid key {KEY}")

    error = fail(Script(), process_request=refuse)
    assert (error.reason, error.close_code) == ("refused", 401)
    assert "invalid key" in str(error)
    assert KEY[:8] not in str(error)
    events = run(Script(at_end=[result(f"say {KEY}", 0, 1, True), SUMMARY], ends=(END,)))
    assert texts(events) == ["say ***"]
    assert KEY not in repr(Deepgram("ws://localhost")) + repr(events)


def test_a_short_key_is_no_secret_and_a_word_that_is_like_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPGRAM_API_KEY", "testing")
    assert texts(run(Script(at_end=[result("testing", 0, 1, True), SUMMARY], ends=(END,)))) == ["testing"]


def test_what_the_server_says_of_an_error_is_the_error() -> None:
    for message, said in (
        ({"type": "Error", "description": "No audio was received", "variant": "x"}, "No audio was received"),
        ({"err_code": "INVALID_AUTH", "err_msg": "Invalid credentials."}, "Invalid credentials."),
        ({"type": "Error", "description": {"a": 1}}, "an error without a message"),
    ):
        error = fail(Script(at_once=[message], ends=(END,)))
        assert error.reason == "error"
        assert said in str(error)


def test_a_close_before_the_end_or_with_a_partial_that_was_never_made_final_is_early() -> None:
    async def close(connection: Any) -> None:
        await connection.recv()

    error = fail(close)
    assert (error.reason, error.close_code) == ("closed", 1000)
    error = fail(Script(at_end=[result("one", 0.0, 0.1)], ends=(END,)))
    assert (error.reason, error.close_code) == ("closed", 1000)
    error = fail(Script(code=1011, reason="NET-0001", ends=(END,)))
    assert (error.reason, error.close_code) == ("closed", 1011)


@pytest.mark.parametrize(
    "change",
    [{"channel": None}, {"channel": {"alternatives": [{}]}}, {"channel": {"alternatives": "x"}}, {"start": "0"},
     {"start": True}, {"start": [1]}, {"duration": {}}, {"is_final": 1}, {"speech_final": "no"}, {"type": 3}],
)  # fmt: skip
def test_fields_of_the_wrong_type_are_garbage(change: dict[str, Any]) -> None:
    assert fail(Script(at_once=[{**result("a", 0, 1), **change}], ends=(END,))).reason == "garbage"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "1" + "0" * 5_000])
def test_times_that_are_no_numbers_are_garbage(number: str) -> None:
    message = json.dumps(result("a", 0.25, 1)).replace("0.25", number)
    assert fail(Script(at_once=[message], ends=(END,))).reason == "garbage"


SECONDS = st.floats() | st.integers() | st.none() | st.text(max_size=3)
RESULTS = st.builds(
    lambda text, start, duration, final, more: {**result(text, start, duration, final), **more},
    st.text(max_size=9), SECONDS, SECONDS, st.booleans(),
    st.dictionaries(
        st.sampled_from(["type", "speech_final", "from_finalize", "channel", "start", "err_msg"]),
        st.booleans() | st.none() | st.floats() | st.lists(st.integers(), max_size=2)
        | st.sampled_from(["Results", "Metadata", "Error", "UtteranceEnd"]),
        max_size=2,
    ),
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(RESULTS.map(json.dumps) | st.text(max_size=20) | st.binary(max_size=20), max_size=6), st.integers(0, 2))
def test_whatever_comes_in_ends_in_texts_or_in_a_server_error(messages: list[Any], chunks: int) -> None:
    socket = WebSocket(FakeSocket(messages), "deepgram", ApiKey(KEY).redact)
    outcome = listen_to(DeepgramConnection(socket, 16_000, ApiKey(KEY)), chunks)
    if isinstance(outcome, ServerError):
        assert outcome.reason in ("garbage", "closed", "error")
    else:
        assert all(event.text is None or event.text.encode() is not None for event in outcome)


def test_it_is_made_by_its_name_and_says_what_it_can() -> None:
    server = make_server("deepgram:wss://api.deepgram.com,model=nova-3,endpointing=false,interim_results=false")
    assert isinstance(server, Server)
    assert server.info.model == "nova-3"
    assert not server.capabilities.partials
    assert not server.capabilities.endpoints
    assert Deepgram("ws://localhost").capabilities.endpoints
    for options in ("interim_results=maybe", "endpointing=soon", "utterance_end_ms=-1", "utterance_end_ms=1.5"):
        with pytest.raises(StopwavError, match=options.partition("=")[0]):
            make_server(f"deepgram:ws://localhost,{options}")


def test_a_path_of_its_own_stays() -> None:
    script = Script(at_end=[SUMMARY], ends=(END,))

    async def main() -> None:
        async with websocket_server(script) as address:
            await listen(Deepgram(f"{address}/speech/v1/listen/"))

    asyncio.run(main())
    assert urlsplit(script.path).path == "/speech/v1/listen"
