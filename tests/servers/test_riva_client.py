"""Riva's streaming recognition: scripted gRPC servers on loopback, messages byte by byte, every way to fail."""

import asyncio
import shutil
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

grpc = pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

from stopwav.errors import StopwavError  # noqa: E402
from stopwav.servers.protocol import Server, ServerError, ServerEvent  # noqa: E402
from stopwav.servers.registry import make_server  # noqa: E402
from stopwav.servers.riva import Riva  # noqa: E402
from stopwav.servers.riva_messages import METHOD, message_class  # noqa: E402

KEY = "nvapi-0123456789abcdef"
CHUNK = np.array([0.0, 0.5, -1.0], np.float32)
# A handler of raw bytes: the requests as they come in, and what is sent back.
Handler = Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]


@asynccontextmanager
async def grpc_server(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback with one method, which neither parses nor makes messages."""
    service, _, method = METHOD.lstrip("/").partition("/")
    server = grpc.aio.server()
    methods = {method: grpc.stream_stream_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


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
        assert time.perf_counter() - begin < 1.0


def run(handler: Handler, chunks: int = 2, awaited: int = 0, **options: Any) -> list[ServerEvent]:
    async def session() -> list[ServerEvent]:
        async with grpc_server(handler) as address:
            return await stream(Riva(address, **options), chunks, awaited)

    return asyncio.run(asyncio.wait_for(session(), 10))


def failure(handler: Handler, chunks: int = 2, awaited: int = 0, **options: Any) -> ServerError:
    with pytest.raises(ServerError) as caught:
        run(handler, chunks, awaited, **options)
    return caught.value


def result(text: str, final: bool = False, processed_s: float = 0.0) -> dict[str, Any]:
    return {
        "alternatives": [{"transcript": text}, {"transcript": "less likely"}],
        "is_final": final,
        "audio_processed": processed_s,
    }


def response(*results: dict[str, Any]) -> bytes:
    return message_class("StreamingRecognizeResponse")(results=list(results)).SerializeToString()


def script(before: list[bytes], after: list[bytes]) -> Handler:
    """Send the first responses after the first audio, and the others after the end."""

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        number = 0
        async for _ in requests:
            number += 1
            if number == 2:
                for message in before:
                    yield message
        for message in after:
            yield message

    return handle


def ending(code: Any, details: str, after: int = 1) -> Handler:
    """End with a status after a number of requests."""

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        number = 0
        async for _ in requests:
            number += 1
            if number == after:
                await context.abort(code, details)
        yield b""

    return handle


def texts(events: list[ServerEvent]) -> list[str | None]:
    return [event.text for event in events]


def test_messages_are_those_of_the_published_protocol_byte_by_byte() -> None:
    """Worked out by hand: a tag is the field's number times 8 plus the kind (0 number, 2 of a length, 5 four bytes)."""
    request = message_class("StreamingRecognizeRequest")()
    config = request.streaming_config.config
    config.encoding, config.sample_rate_hertz, config.language_code, config.model = 1, 16_000, "en", "m"
    config.enable_automatic_punctuation = True
    config.endpointing_config.stop_history = 0  # present though it is 0
    request.streaming_config.interim_results = True
    inner = b"\x08\x01\x10\x80\x7d\x1a\x02en\x58\x01\x6a\x01m\xca\x01\x02\x18\x00"
    assert request.SerializeToString() == b"\x0a" + bytes([len(inner) + 4]) + b"\x0a" + bytes([len(inner)]) + inner + (
        b"\x10\x01"
    )
    assert Riva("localhost:1").encode(CHUNK) == b"\x12\x06" + struct.pack("<hhh", 0, 16384, -32768)
    word = b"\x08\x05\x10\x0a\x1a\x02hi\x25" + struct.pack("<f", 0.5)
    alternative = b"\x0a\x02hi\x15" + struct.pack("<f", 0.25) + b"\x1a" + bytes([len(word)]) + word
    found = b"\x0a" + bytes([len(alternative)]) + alternative + b"\x10\x01\x1d" + struct.pack("<f", 0.75)
    found += b"\x28\x01\x35" + struct.pack("<f", 1.5)
    # With fields that the client does not know: an identifier of the request, and states of the pipeline.
    found += b"\x3a\x00"
    message = b"\x0a" + bytes([len(found)]) + found + b"\xa2\x06\x00"
    parsed = message_class("StreamingRecognizeResponse").FromString(message).results[0]
    assert (parsed.is_final, parsed.stability, parsed.channel_tag, parsed.audio_processed) == (True, 0.75, 1, 1.5)
    first = parsed.alternatives[0]
    assert (first.transcript, first.confidence) == ("hi", 0.25)
    assert [(word.start_time, word.end_time, word.word, word.confidence) for word in first.words] == [
        (5, 10, "hi", 0.5)
    ]


def test_messages_are_those_of_nvidias_package() -> None:
    official = pytest.importorskip("riva.client.proto.riva_asr_pb2")
    for name in ("StreamingRecognizeRequest", "StreamingRecognizeResponse", "RecognitionConfig", "EndpointingConfig"):
        for field in message_class(name).DESCRIPTOR.fields:
            known = official.DESCRIPTOR.message_types_by_name[name].fields_by_name[field.name]
            assert (known.number, known.type, known.is_repeated) == (field.number, field.type, field.is_repeated)


def test_the_stream_is_opened_as_the_protocol_says() -> None:
    seen: list[Any] = []

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        seen.append(dict(context.invocation_metadata()))
        async for request in requests:
            seen.append(message_class("StreamingRecognizeRequest").FromString(request))
        yield response(result("done", final=True))

    options = {"language": "de-DE", "model": "m", "punctuation": True, "endpointing_ms": 800, "function_id": "f"}
    assert texts(run(handle, chunks=1, **options)) == ["done"]
    metadata, opening, audio = seen
    assert metadata["function-id"] == "f"
    assert "authorization" not in metadata
    config = opening.streaming_config.config
    assert opening.streaming_config.interim_results
    assert (config.encoding, config.sample_rate_hertz, config.audio_channel_count) == (1, 16_000, 1)
    assert (config.language_code, config.model, config.enable_automatic_punctuation) == ("de-DE", "m", True)
    assert config.endpointing_config.stop_history == 800
    assert config.verbatim_transcripts
    assert not config.enable_word_time_offsets
    assert struct.unpack("<hhh", audio.audio_content) == (0, 16384, -32768)


def test_every_event_has_the_whole_text_and_finals_before_the_end_are_endpoints() -> None:
    before = [
        response(result("the", processed_s=0.5)),
        response(result("the "), result("cat ")),
        response(result("The cat. ", final=True, processed_s=1.0)),
        response(),
        response(result("", final=True)),
    ]
    after = [
        response(result("sat")),
        response(result("Sat.", final=True), result("down")),
        response(result("Down.", True)),
    ]
    begin_ns = time.perf_counter_ns()
    events = run(script(before, after), awaited=4)
    assert texts(events) == [
        "the", "the cat", "The cat.", "The cat.", "The cat. sat", "The cat. Sat. down", "The cat. Sat. Down.",
    ]  # fmt: skip
    assert [event.endpoint for event in events] == [False, False, True, False, False, False, False]
    assert [dict(event.parts) for event in events[:3]] == [{"audio_processed": 0.5}, {}, {"audio_processed": 1.0}]
    times = [event.at_ns for event in events]
    assert times == sorted(times)
    assert begin_ns < times[0]


def test_many_responses_before_the_status_are_all_read() -> None:
    after = [response(result(str(number), final=True)) for number in range(50)]
    assert len(run(script([], after))) == 50
    assert run(script([], [])) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("INVALID_ARGUMENT", "refused"), ("UNAUTHENTICATED", "refused"), ("RESOURCE_EXHAUSTED", "refused"),
        ("INTERNAL", "error"), ("UNKNOWN", "error"), ("UNAVAILABLE", "closed"), ("CANCELLED", "closed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [1, 2])
def test_a_status_is_the_code_of_the_error(code: str, reason: str, after: int) -> None:
    status = grpc.StatusCode[code]
    error = failure(ending(status, "because of that", after), chunks=after - 1, awaited=1)
    assert (error.reason, error.close_code) == (reason, status.value[0])
    assert "because of that" in str(error)


def test_a_status_that_crosses_a_chunk_on_its_way_may_be_lost_but_is_never_another() -> None:
    async def session() -> list[ServerError]:
        errors = []
        async with grpc_server(ending(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")) as address:
            for _ in range(30):
                with pytest.raises(ServerError) as caught:
                    await stream(Riva(address), chunks=500)
                errors.append(caught.value)
        return errors

    found = {(error.reason, error.close_code) for error in asyncio.run(asyncio.wait_for(session(), 20))}
    assert found <= {("refused", 8), ("closed", None)}


def test_a_server_that_ends_the_stream_early_has_closed_it() -> None:
    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for _ in requests:
            break
        yield response(result("so far", final=True))

    async def session() -> None:
        async with grpc_server(handle) as address:
            connection = await Riva(address).connect()
            try:
                async for _ in connection.events():
                    pass
            finally:
                with pytest.raises(ServerError):
                    await connection.send(b"")
                await connection.close()

    with pytest.raises(ServerError, match="before the audio had ended") as caught:
        asyncio.run(asyncio.wait_for(session(), 10))
    assert (caught.value.reason, caught.value.close_code) == ("closed", 0)


def test_nobody_at_the_address_and_another_protocol_are_refused() -> None:
    with pytest.raises(ServerError) as caught:
        asyncio.run(asyncio.wait_for(Riva("127.0.0.1:9").connect(), 10))
    assert (caught.value.reason, caught.value.close_code) == ("refused", 14)

    first: list[bytes] = []

    async def session(tls: bool) -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first.append(await reader.read(3))
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            await stream(Riva(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", tls=tls))

    for tls in (False, True):
        with pytest.raises(ServerError) as caught:
            asyncio.run(asyncio.wait_for(session(tls), 10))
        assert caught.value.reason in ("refused", "closed")
        # The greeting of HTTP/2, or that of TLS.
        assert first.pop() == (b"\x16\x03\x01" if tls else b"PRI")
        first.clear()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(private), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    credentials = grpc.ssl_server_credentials([(private.read_bytes(), certificate.read_bytes())])

    async def session() -> None:
        server = grpc.aio.server()
        port = server.add_secure_port("localhost:0", credentials)
        await server.start()
        try:
            await Riva(f"localhost:{port}", tls=True).connect()
        finally:
            await server.stop(0)

    with pytest.raises(ServerError, match="cannot connect to localhost") as caught:
        asyncio.run(asyncio.wait_for(session(), 10))
    assert (caught.value.reason, caught.value.close_code) == ("refused", 14)


def test_a_server_without_the_method_refuses() -> None:
    async def session() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            await stream(Riva(f"127.0.0.1:{port}"), chunks=0, awaited=1)
        finally:
            await server.stop(0)

    with pytest.raises(ServerError) as caught:
        asyncio.run(asyncio.wait_for(session(), 10))
    assert (caught.value.reason, caught.value.close_code) == ("refused", 12)


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x05ab", b"\x0a\x06\x0a\x04\x0a\x02\xff\xfe"])
def test_bytes_that_are_no_response_are_garbage(message: bytes) -> None:
    """No tag, a length beyond the end, and a transcript that is not UTF-8."""
    assert failure(script([message], [])).reason == "garbage"


def test_a_key_is_shown_nowhere_even_where_the_server_sends_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_API_KEY", KEY)
    server = Riva("127.0.0.1:9", tls=True)
    assert KEY not in repr(vars(server))
    assert dict(server._metadata()) == {"authorization": f"Bearer {KEY}"}
    # Without TLS the key stays here.
    assert Riva("127.0.0.1:9")._metadata() == ()

    async def session(details: str) -> None:
        async with grpc_server(ending(grpc.StatusCode.UNAUTHENTICATED, details)) as address:
            plain = Riva(address)
            plain._key = server._key
            await stream(plain, chunks=0, awaited=1)

    for details in (f"bad key {KEY}", "x" * 70 + KEY):
        with pytest.raises(ServerError) as caught:
            asyncio.run(asyncio.wait_for(session(details), 10))
        assert "***" in str(caught.value)
        assert "nvap" not in str(caught.value)


@pytest.mark.parametrize("moment", range(4))
def test_a_connection_can_be_closed_at_any_moment(moment: int) -> None:
    async def stall(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(30)
        yield b""

    async def read(events: AsyncIterator[ServerEvent]) -> None:
        async for _ in events:
            pass

    async def session() -> None:
        async with grpc_server(stall) as address:
            server = Riva(address)
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
            assert time.perf_counter() - begin < 1.0
            with pytest.raises(ServerError):
                await asyncio.wait_for(reader, 1.0)
            with pytest.raises(ServerError):
                await connection.send(server.encode(CHUNK))
            assert await connection.ping() is None

    asyncio.run(asyncio.wait_for(session(), 10))


def test_a_task_that_is_cancelled_ends_as_one() -> None:
    async def stall(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(30)
        yield b""

    async def session() -> None:
        async with grpc_server(stall) as address:
            connection = await Riva(address).connect()
            reader = asyncio.ensure_future(anext(connection.events()))
            await asyncio.sleep(0.02)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await connection.close()

    asyncio.run(asyncio.wait_for(session(), 10))


def test_capabilities_and_description_say_what_is_so() -> None:
    server = make_server("riva:localhost:50051,language=en-GB,model=parakeet")
    assert isinstance(server, Server)
    assert server.capabilities.endpoints
    assert not server.capabilities.word_times
    assert (server.info.sample_rate_hz, server.info.model, server.info.language) == (16_000, "parakeet", "en-GB")
    assert make_server("riva:localhost:50051,word_times=true").capabilities.word_times


@pytest.mark.parametrize(
    "spec",
    [
        "riva:localhost", "riva:grpc://localhost:50051", "riva::50051", "riva:x:999999",
        "riva:x:1,endpointing_ms=soon", "riva:x:1,rate=8k", "riva:x:1,rate=99999999999", "riva:x:1,punctuation=yes",
        "riva:x:1,function_id=ä",
    ],
)  # fmt: skip
def test_a_spec_that_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(StopwavError):
        make_server(spec)


results = st.builds(
    lambda texts, final, processed_s: {
        "alternatives": [{"transcript": text} for text in texts], "is_final": final, "audio_processed": processed_s,
    },
    st.lists(st.text(max_size=5).filter(lambda text: text.isprintable()), max_size=2),
    st.booleans(),
    st.floats(width=32),
)  # fmt: skip
messages = st.lists(
    st.lists(results, max_size=3).map(lambda found: response(*found)) | st.binary(max_size=20), max_size=5
)


def test_whatever_comes_in_there_are_texts_or_a_server_error() -> None:
    """One server for all examples; it sends what is in the box after the end, and ends with the status in it."""
    box: dict[str, Any] = {}

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for _ in requests:
            pass
        for message in box["messages"]:
            yield message
        if box["code"] is not grpc.StatusCode.OK:
            await context.abort(box["code"], box["details"])

    async def one(address: str) -> None:
        try:
            events = await asyncio.wait_for(stream(Riva(address), 1), 5)
        except ServerError:
            return
        assert all(isinstance(event.text, str) for event in events)

    with asyncio.Runner() as runner:
        context = grpc_server(handle)
        address = runner.run(context.__aenter__())

        @settings(max_examples=100)
        @given(messages=messages, code=st.sampled_from(grpc.StatusCode), details=st.text(max_size=9))
        def try_one(messages: list[bytes], code: Any, details: str) -> None:
            box.update(messages=messages, code=code, details=details)
            runner.run(one(address))

        try_one()
        runner.run(context.__aexit__(None, None, None))
