"""OpenAI's /audio/transcriptions: uploads to scripted servers, answers in every form, every way to fail."""

import asyncio
import json
import shutil
import ssl
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.servers.openai_upload import OpenAIUpload, wave_file
from stopwav.servers.protocol import Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.server_sent_events import SentEvents

web = pytest.importorskip("aiohttp.web")

KEY = "sk-proj-0123456789abcdef"
Handler = Callable[..., Awaitable[object]]
HALF = np.full(160, 0.5, np.float32)


@asynccontextmanager
async def http_server(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server on loopback with one handler, at the address that is yielded."""
    application = web.Application(client_max_size=2**26)
    application.router.add_post("/v1/audio/transcriptions", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def tcp_server(answer: bytes) -> AsyncIterator[str]:
    """A server that reads the headers and the beginning of a body, then sends these bytes and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(2**16):
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def stream(server: Server, chunks: int = 2) -> list[ServerEvent]:
    """Send chunks and the end, and return what comes in."""
    connection = await server.connect()
    try:
        for _ in range(chunks):
            await connection.send(server.encode(HALF))
        await connection.end()
        return [event async for event in connection.events()]
    finally:
        begin = time.perf_counter()
        await connection.close()
        assert time.perf_counter() - begin < 1.0


def upload(handler: Handler, chunks: int = 2, **options: object) -> list[ServerEvent]:
    async def run() -> list[ServerEvent]:
        async with http_server(handler) as address:
            return await stream(OpenAIUpload(address, **options), chunks)

    return asyncio.run(asyncio.wait_for(run(), 10))


def failure(handler: Handler, **options: object) -> ServerError:
    with pytest.raises(ServerError) as caught:
        upload(handler, **options)
    return caught.value


def answering(body: object, status: int = 200, content_type: str = "application/json", **headers: str) -> Handler:
    async def handle(request: "web.Request") -> "web.Response":
        await request.read()
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=raw, status=status, content_type=content_type, headers=headers)

    return handle


def events_of(*data: object, pause_s: float = 0.0) -> Handler:
    """Answer by server-sent events."""

    async def handle(request: "web.Request") -> "web.StreamResponse":
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for one in data:
            text = one if isinstance(one, str) else json.dumps(one)
            await response.write(f"data: {text}\n\n".encode())
            await asyncio.sleep(pause_s)
        return response

    return handle


def texts(events: list[ServerEvent]) -> list[str | None]:
    return [event.text for event in events]


def test_the_audio_is_uploaded_as_a_wave_file_with_the_options_as_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen: dict[str, object] = {}

    async def handle(request: "web.Request") -> "web.Response":
        seen["authorization"] = request.headers.get("Authorization")
        seen["length"] = request.headers.get("Content-Length")
        form = await request.post()
        seen.update({name: value for name, value in form.items() if name != "file"})
        seen["wave"], seen["filename"] = form["file"].file.read(), form["file"].filename
        return web.json_response({"text": " a cat sat "})

    begin_ns = time.perf_counter_ns()
    events = upload(handle, model="m", language="de", prompt="names", temperature=0)
    assert texts(events) == ["a cat sat"]
    assert begin_ns < events[0].at_ns < time.perf_counter_ns()
    wave = seen.pop("wave")
    assert isinstance(wave, bytes)
    assert wave[:4] == b"RIFF"
    assert wave[8:16] == b"WAVEfmt "
    # Format 1, one channel, 16 kHz, 32,000 bytes a second, 2 a frame, 16 bits; half of full scale is 16384 (rounded).
    assert struct.unpack("<HHIIHH", wave[20:36]) == (1, 1, 16_000, 32_000, 2, 16)
    assert struct.unpack("<I", wave[40:44]) == (640,)
    assert wave[44:] == struct.pack("<h", 16384) * 320
    assert int(str(seen.pop("length"))) > 684
    assert seen == {
        "authorization": f"Bearer {KEY}", "filename": "audio.wav", "model": "m", "response_format": "json",
        "language": "de", "prompt": "names", "temperature": "0",
    }  # fmt: skip


def test_without_a_key_there_is_no_header_and_the_field_of_the_model_can_be_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    seen: list[object] = []

    async def handle(request: "web.Request") -> "web.Response":
        form = await request.post()
        seen.extend(["Authorization" in request.headers, sorted(set(form) - {"file"}), form["model_name"]])
        return web.json_response({"text": ""})

    assert texts(upload(handle, chunks=0, model_field="model_name", model="base")) == [""]
    assert seen == [False, ["model_name", "response_format"], "base"]


@pytest.mark.parametrize(
    ("response_format", "body", "text"),
    [
        ("json", {"text": "one two", "usage": {}}, "one two"),
        ("verbose_json", {"text": " one two", "segments": [], "words": []}, "one two"),
        ("text", b"one two\n", "one two"),
        ("text", "one two", "one two"),  # FastAPI makes JSON of a text
        ("text", {"text": "one two"}, "one two"),
        ("text", b"17", "17"),
        ("text", b"", ""),
    ],
)
def test_every_format_of_an_answer_is_read(response_format: str, body: object, text: str) -> None:
    assert texts(upload(answering(body), response_format=response_format)) == [text]


def test_the_time_that_the_server_says_it_took_is_kept() -> None:
    assert upload(answering({"text": "a"}, **{"openai-processing-ms": "250"}))[0].parts == {"processing": 0.25}
    assert upload(answering({"text": "a"}, **{"openai-processing-ms": "nan"}))[0].parts == {}
    assert upload(answering({"text": "a"}, **{"openai-processing-ms": "fast"}))[0].parts == {}


def delta(text: str) -> dict[str, str]:
    return {"type": "transcript.text.delta", "delta": text}


def chunk(text: str) -> dict[str, object]:
    return {"object": "transcription.chunk", "choices": [{"delta": {"content": text}, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # OpenAI's: the parts of words come as they are, and the last event has the whole text.
        (
            [delta("The"), delta(" ca"), delta("t"), {"type": "transcript.text.done", "text": "The cat."}],
            ["The", "The ca", "The cat", "The cat."],
        ),
        ([{"type": "transcript.text.done", "text": ""}], [""]),
        ([delta("a"), {"type": "transcript.text.done"}], ["a", "a"]),
        # Segments take the place of the deltas before them.
        (
            [
                delta("a"), delta(" b"), {"type": "transcript.text.segment", "id": "1", "text": "A b."},
                delta("c"), {"type": "transcript.text.segment", "id": "2", "text": "C."},
                {"type": "transcript.text.done", "text": "A b. C."},
            ],
            ["a", "a b", "A b.", "A b. c", "A b. C.", "A b. C."],
        ),
        # Segments without a type and without an end, as other servers send them.
        ([{"text": " one"}, {"text": " two"}], ["one", "one two"]),
        # Chunks in the shape of a chat, with counts and an end.
        ([chunk("on"), chunk("e"), {"choices": [], "usage": {}}, "[DONE]"], ["on", "one"]),
        # Events of newer versions bring no text.
        ([{"type": "transcript.text.colour"}, delta("a"), "[DONE]", delta("b")], ["a"]),
    ],
)  # fmt: skip
def test_streamed_events_give_the_whole_text_each_time(data: list[object], expected: list[str]) -> None:
    assert texts(upload(events_of(*data), stream=True)) == expected


def test_streamed_events_have_the_times_at_which_they_came_in() -> None:
    data = [delta("a"), delta("b"), {"type": "transcript.text.done", "text": "ab"}]
    events = upload(events_of(*data, pause_s=0.1), stream=True)
    assert [second.at_ns - first.at_ns > 50e6 for first, second in pairwise(events)] == [True] * 2


def test_a_plain_text_may_be_streamed_where_text_was_asked_for() -> None:
    assert texts(upload(events_of("one", "two"), stream=True, response_format="text")) == ["one", "one two"]
    assert failure(events_of("one"), stream=True).reason == "garbage"


def test_stream_is_asked_for_and_may_be_ignored() -> None:
    seen: list[object] = []

    async def handle(request: "web.Request") -> "web.Response":
        seen.append((await request.post())["stream"])
        return web.json_response({"text": "at once"})

    assert texts(upload(handle, stream=True)) == ["at once"]
    assert seen == ["true"]


def test_a_server_that_streams_no_text_is_named_with_the_way_out() -> None:
    error = failure(events_of(), stream=True)
    assert error.reason == "closed"
    assert "leave stream=true out" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "reason", "message"),
    [
        (401, {"error": {"message": "no such key", "type": "auth"}}, "refused", "no such key"),
        (429, {"error": "slow down"}, "refused", "slow down"),
        (422, {"detail": [{"msg": "model_name is missing"}]}, "refused", "model_name is missing"),
        (400, {"detail": {"error": {"message": "unsupported"}}}, "refused", "unsupported"),
        (404, b"<html>nothing here</html>", "refused", "nothing here"),
        (503, {"message": "full"}, "refused", "full"),
        (500, b"", "error", "status"),
        (502, {"error": {}}, "error", "status"),
        (302, b"", "refused", "status"),
    ],
)
def test_a_status_is_the_code_of_the_error(status: int, body: object, reason: str, message: str) -> None:
    error = failure(answering(body, status))
    assert (error.reason, error.close_code) == (reason, status)
    assert message in str(error)
    assert len(str(error)) < 250


def test_a_redirect_is_not_followed() -> None:
    """The server that is measured is the one that was named, and no other is sent its key."""
    visits: list[str] = []

    async def handle(request: "web.Request") -> "web.Response":
        visits.append(request.path_qs)
        await request.read()
        return web.Response(status=307, headers={"Location": "/v1/audio/transcriptions?again"})

    error = failure(handle)
    assert (error.reason, error.close_code) == ("refused", 307)
    assert visits == ["/v1/audio/transcriptions"]


def test_a_key_is_shown_nowhere_even_where_the_server_sends_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = OpenAIUpload("http://127.0.0.1:9/v1")
    assert KEY not in repr(vars(server))
    echo = {"error": {"message": f"bad key {KEY}"}}
    # Cut off in the middle of the key, too: no more than its first letters may be left.
    long = {"error": "x" * 70 + KEY}
    errors = [
        failure(answering(echo, 401)), failure(answering(echo)), failure(answering(long, 401)),
        failure(answering({"other": KEY})), failure(answering(KEY.encode() * 20)),
        failure(events_of({"type": "error", **echo}), stream=True), failure(events_of(KEY), stream=True),
    ]  # fmt: skip
    assert all("sk-p" not in str(error) and "sk-p" not in repr(error) for error in errors)
    assert texts(upload(answering({"text": f"a {KEY} b"}))) == ["a *** b"]
    assert texts(upload(events_of(delta(KEY)), stream=True)) == ["***"]


def test_a_placeholder_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    assert texts(upload(answering({"text": "EMPTY ROOMS"}))) == ["EMPTY ROOMS"]
    # A key that may be a word stays in texts, but not in errors.
    monkeypatch.setenv("OPENAI_API_KEY", "password")
    assert texts(upload(answering({"text": "my password"}))) == ["my password"]
    assert "password" not in str(failure(answering({"error": "wrong: password"}, 401)))
    monkeypatch.setenv("OPENAI_API_KEY", "two\nlines")
    with pytest.raises(StopwavError, match="OPENAI_API_KEY holds"):
        OpenAIUpload("http://127.0.0.1:9/v1")


def test_half_a_character_is_none() -> None:
    """JSON can write it, but no file can hold it."""
    assert texts(upload(answering(b'{"text": "a \\ud83d b"}'))) == ["a ? b"]
    assert texts(upload(answering(b'"a \\ud83d b"'), response_format="text")) == ["a ? b"]
    assert texts(upload(events_of('{"text": "\\ud83d"}'), stream=True)) == ["?"]


def test_an_error_in_an_answer_or_among_events_is_the_servers_own() -> None:
    error = failure(answering({"error": {"message": "no audio"}}))
    assert (error.reason, "no audio" in str(error)) == ("error", True)
    error = failure(events_of(delta("a"), {"error": {"message": "out of memory"}}), stream=True)
    assert (error.reason, "out of memory" in str(error)) == ("error", True)


@pytest.mark.parametrize("body", [b"", b"[1]", b"no json", b'{"text": 1}', b"[" * 100_000, b"\xff\xfe", b"null"])
def test_an_answer_without_a_text_is_garbage(body: bytes) -> None:
    assert failure(answering(body)).reason == "garbage"


def test_nobody_at_the_address_is_said_before_any_audio_is_sent() -> None:
    with pytest.raises(ServerError, match="is the server running") as caught:
        asyncio.run(OpenAIUpload("http://127.0.0.1:9/v1").connect())
    assert caught.value.reason == "refused"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed"),
        (HEAD + b'Content-Length: 100\r\n\r\n{"text"', "closed"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", "closed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "garbage"),
        (b"HTTP/1.1 9999 odd\r\n\r\n", "garbage"),
    ],
)
def test_an_answer_that_breaks_off_or_is_no_http_is_an_error(answer: bytes, reason: str) -> None:
    async def run() -> None:
        async with tcp_server(answer) as address:
            await stream(OpenAIUpload(address))

    with pytest.raises(ServerError) as caught:
        asyncio.run(asyncio.wait_for(run(), 10))
    assert caught.value.reason == reason


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(private), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, private)

    async def run() -> None:
        async with http_server(answering({"text": "a"}), context) as address:
            await stream(OpenAIUpload(address))

    with pytest.raises(ServerError, match="certificate") as caught:
        asyncio.run(asyncio.wait_for(run(), 10))
    assert caught.value.reason == "refused"


def test_a_connection_can_be_closed_at_any_moment() -> None:
    async def stall(request: "web.Request") -> "web.Response":
        await asyncio.sleep(30)
        return web.Response()

    async def run(moment: int) -> None:
        async with http_server(stall) as address:
            connection = await OpenAIUpload(address).connect()
            reader = asyncio.create_task(_all(connection.events()))
            if moment > 0:
                await connection.send(b"\0\0")
            if moment > 1:
                await connection.end()
            if moment > 2:
                await asyncio.sleep(0.05)
            begin = time.perf_counter()
            await connection.close()
            await connection.close()
            assert time.perf_counter() - begin < 1.0
            with pytest.raises(ServerError):
                await connection.send(b"\0\0")
            with pytest.raises(ServerError):
                await connection.end()
            assert await connection.ping() is None
            with pytest.raises(ServerError):
                await asyncio.wait_for(reader, 1.0)

    for moment in range(4):
        asyncio.run(run(moment))


async def _all(events: AsyncIterator[ServerEvent]) -> list[ServerEvent]:
    return [event async for event in events]


def test_capabilities_and_description_say_what_is_so() -> None:
    server = make_server("openai:http://localhost:8000/v1,model=whisper-1,language=en")
    assert isinstance(server, Server)
    assert not server.capabilities.partials
    assert not server.capabilities.word_times
    assert (server.info.sample_rate_hz, server.info.model, server.info.language) == (16_000, "whisper-1", "en")
    assert make_server("openai:http://localhost:8000/v1,stream=true").capabilities.partials


@pytest.mark.parametrize(
    "spec", ["openai:localhost:8000", "openai:http:///v1", "openai:ws://x", "openai:http://x/v1,response_format=srt"]
)
def test_a_spec_that_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(StopwavError):
        make_server(spec)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "delta", "error", "choices", "content", "message"]), inner)
    ),
    max_leaves=8,
)
kinds = st.sampled_from(["transcript.text.delta", "transcript.text.segment", "transcript.text.done", "error"])
odd_events = st.dictionaries(st.sampled_from(["text", "delta", "error"]), json_values).flatmap(
    lambda event: kinds.map(lambda kind: {**event, "type": kind})
)


def test_whatever_comes_back_there_are_texts_or_a_server_error() -> None:
    """One server for all examples; each answers with the bytes that are in the box."""
    box: dict[str, object] = {}

    async def handle(request: "web.Request") -> "web.StreamResponse":
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": str(box["type"])})
        await response.prepare(request)
        await response.write(bytes(box["body"]))
        return response

    async def one(address: str, **options: object) -> None:
        try:
            events = await asyncio.wait_for(stream(OpenAIUpload(address, **options), 1), 5)
        except ServerError:
            return
        assert all(isinstance(event.text, str) for event in events)

    with asyncio.Runner() as runner:
        context = http_server(handle)
        address = runner.run(context.__aenter__())

        @settings(max_examples=150)
        @given(
            body=st.binary(max_size=60)
            | json_values.map(lambda value: json.dumps(value).encode())
            | st.lists(odd_events | json_values, max_size=4).map(
                lambda events: b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
            ),
            kind=st.sampled_from(["application/json", "text/event-stream", "text/plain"]),
            response_format=st.sampled_from(["json", "text"]),
        )
        def try_one(body: bytes, kind: str, response_format: str) -> None:
            box.update(body=body, type=kind)
            runner.run(one(address, stream=True, response_format=response_format))

        try_one()
        runner.run(context.__aexit__(None, None, None))


@given(
    data=st.lists(st.text(max_size=8).filter(lambda text: not set(text) & set("\r\n")), max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_events_do_not_depend_on_the_pieces_in_which_they_come(data: list[str], end: str, sizes: list[int]) -> None:
    raw = "".join(f": comment{end}event: x{end}data: {one}{end}{end}" for one in data).encode()
    parser, got, place, turn = SentEvents(), [], 0, 0
    while place < len(raw):
        size = sizes[turn % len(sizes)]
        got += parser.push(raw[place : place + size])
        place, turn = place + size, turn + 1
    assert got + parser.finish() == data


def test_an_event_of_several_lines_is_one_text() -> None:
    assert SentEvents().push(b"data: a\ndata: b\n\n") == ["a\nb"]
    parser = SentEvents()
    assert parser.push(b"data: last") == []
    assert parser.pending_bytes == 10
    assert parser.finish() == ["last"]


def test_a_wave_file_of_nothing_has_a_header() -> None:
    assert len(wave_file(b"")) == 44
