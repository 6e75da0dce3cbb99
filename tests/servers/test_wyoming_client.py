"""Wyoming over TCP: against the package's own server, against raw sockets that fail, and against garbage."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import CHUNK, endpoints, failure, listen, tcp_server, texts

from stopwav.errors import StopwavError
from stopwav.servers import wyoming_server
from stopwav.servers.protocol import Server, ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.wyoming_server import WyomingConnection, WyomingServer

pytest.importorskip("wyoming")

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Info
from wyoming.server import AsyncEventHandler, AsyncTcpServer
from wyoming.vad import VoiceStarted, VoiceStopped

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def official_server(at_chunk: Sequence[Any], at_end: Sequence[Any], heard: list[Event]) -> AsyncIterator[str]:
    """The package's own server, which says some events after the first chunk and some after the end."""

    class Handler(AsyncEventHandler):
        async def handle_event(self, event: Event) -> bool:
            heard.append(event)
            first = AudioChunk.is_type(event.type) and sum(AudioChunk.is_type(past.type) for past in heard) == 1
            for reply in at_chunk if first else at_end if AudioStop.is_type(event.type) else ():
                await self.write_event(reply.event())
            return not AudioStop.is_type(event.type)

    server = AsyncTcpServer("127.0.0.1", 0)
    await server.start(Handler)
    assert server._server is not None
    try:
        yield f"tcp://127.0.0.1:{server._server.sockets[0].getsockname()[1]}"
    finally:
        await server.stop()


def run(
    at_end: Sequence[Any], at_chunk: Sequence[Any] = (), chunks: int = 2, **options: Any
) -> tuple[list[ServerEvent], list[Event], WyomingServer]:
    async def main() -> tuple[list[ServerEvent], list[Event], WyomingServer]:
        heard: list[Event] = []
        async with official_server(at_chunk, at_end, heard) as address:
            server = WyomingServer(address, **options)
            return await listen(server, chunks), heard, server

    return asyncio.run(main())


def fail(handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> ServerError:
    async def main() -> ServerError:
        async with tcp_server(handler) as place:
            return await failure(WyomingServer(f"tcp://{place}"))

    return asyncio.run(main())


def say(content: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A server that reads a little, sends some bytes and closes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(content)
        await writer.drain()

    return handler


def test_the_request_the_audio_and_the_end_are_what_the_package_understands() -> None:
    events, heard, server = run([Transcript(text=" one two ")], chunks=3, model="base", language="en")
    assert texts(events) == ["one two"]
    assert endpoints(events) == [False]
    assert [event.type for event in heard] == ["transcribe", "audio-start", *["audio-chunk"] * 3, "audio-stop"]
    request = Transcribe.from_event(heard[0])
    assert (request.name, request.language) == ("base", "en")
    assert AudioStart.from_event(heard[1]) == AudioStart(16_000, 2, 1, None)
    chunk = AudioChunk.from_event(heard[2])
    assert (chunk.rate, chunk.width, chunk.channels) == (16_000, 2, 1)
    assert np.array_equal(np.frombuffer(chunk.audio, "<i2"), CHUNK.astype("<i2"))
    assert not server.capabilities.partials
    assert not server.capabilities.endpoints


def test_a_transcript_in_pieces_grows_and_ends_with_its_stop() -> None:
    pieces = [TranscriptStart(), TranscriptChunk("one "), TranscriptChunk("two "), TranscriptChunk("tree")]
    events, _, server = run([*pieces, Transcript("one two three"), TranscriptStop()])
    assert texts(events) == ["one", "one two", "one two tree", "one two three"]
    assert not any(endpoints(events))
    assert server.capabilities.partials
    # Without the transcript as a whole, and without the stop.
    assert texts(run([*pieces, TranscriptStop()])[0])[-1] == "one two tree"
    assert texts(run([*pieces, Transcript("one two three")])[0])[-1] == "one two three"


def test_pieces_during_the_audio_are_partials() -> None:
    events, _, _ = run([TranscriptChunk(" two"), TranscriptStop()], [TranscriptStart(), TranscriptChunk("one")])
    assert texts(events) == ["one", "one two"]


def test_a_transcript_before_the_end_is_an_endpoint_and_the_audio_is_sent_to_nobody() -> None:
    events, heard, server = run([], [VoiceStarted(), VoiceStopped(), Transcript("one")], chunks=5)
    assert texts(events) == [None, "one"]
    assert endpoints(events) == [True, True]
    assert len(heard) < 8
    assert server.capabilities.endpoints


def test_after_a_transcript_before_the_end_the_client_is_the_one_who_ends_the_stream() -> None:
    async def main() -> list[str]:
        order: list[str] = []
        async with official_server([Transcript("one")], [], []) as address:
            server = WyomingServer(address)
            connection = await server.connect()

            async def read() -> None:
                order.extend([str(event.text) async for event in connection.events()])
                order.append("read")

            async def send() -> None:
                await connection.send(server.encode(CHUNK))
                await asyncio.sleep(0.05)
                await connection.send(server.encode(CHUNK))
                await connection.end()

            sender = asyncio.create_task(send())
            sender.add_done_callback(lambda _: order.append("sent"))
            await asyncio.gather(read(), sender)
            await connection.close()
        return order

    # The reader has had the text long before, but is done only when the sender is.
    assert asyncio.run(main()) == ["sent", "one", "read"]


def test_events_of_other_kinds_are_not_texts() -> None:
    assert texts(run([Info(), Transcript("one")])[0]) == ["one"]


def test_an_empty_transcript_is_one() -> None:
    assert texts(run([Transcript("")])[0]) == [""]


def test_what_the_server_says_of_an_error_is_the_error() -> None:
    async def main() -> ServerError:
        async with official_server([Error("no model", "ModelNotFound")], [], []) as address:
            return await failure(WyomingServer(address))

    error = asyncio.run(main())
    assert error.reason == "error"
    assert "no model" in str(error)
    assert "ModelNotFound" in str(error)


def test_a_server_that_closes_without_a_transcript_closed_early() -> None:
    async def main() -> ServerError:
        async with official_server([], [], []) as address:
            return await failure(WyomingServer(address))

    assert asyncio.run(main()).reason == "closed"


@pytest.mark.parametrize(
    "content",
    [b"", b'{"type": "transcript", "data": {"te', b'{"type": "transcript", "data_length": 50}\n{"text"',
     b'{"type": "transcript-start"}\n{"type": "transcript-chunk", "data": {"text": "a"}}\n'],
)  # fmt: skip
def test_a_connection_that_ends_in_the_middle_is_closed(content: bytes) -> None:
    assert fail(say(content)).reason == "closed"


def test_a_connection_that_is_cut_is_closed() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    assert fail(cut).reason == "closed"


@pytest.mark.parametrize(
    "content",
    [b"hello\n", b"\n", b"[]\n", b"\xff\n", b"{}\n", b'{"type": 1}\n', b"[" * 9**5 + b"\n",
     b'{"type": "transcript", "data": 3}\n', b'{"type": "transcript", "data": {"text": 3}}\n',
     b'{"type": "transcript", "data_length": -1}\n', b'{"type": "transcript", "data_length": "9"}\n',
     b'{"type": "transcript", "data_length": true}\n', b'{"type": "a", "payload_length": 99999999999}\n',
     b'{"type": "transcript", "data_length": 2}\n[]', b'{"type": "transcript"}\n'],
)  # fmt: skip
def test_what_the_protocol_does_not_have_is_garbage(content: bytes) -> None:
    error = fail(say(content))
    assert error.reason == "garbage"
    assert len(str(error)) < 250


def test_a_line_without_an_end_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming_server, "LONGEST_MESSAGE_BYTES", 1_000)
    error = fail(say(b"x" * 5_000))
    assert error.reason == "garbage"
    assert "longer than any transcript" in str(error)


def test_an_address_where_nobody_listens_is_refused() -> None:
    async def main() -> ServerError:
        async with tcp_server(say(b"")) as place:
            pass
        return await failure(WyomingServer(f"tcp://{place}"))

    error = asyncio.run(main())
    assert error.reason == "refused"
    assert "is the server running?" in str(error)


def test_closing_takes_no_time_though_the_server_reads_nothing() -> None:
    async def main() -> float:
        async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(60)

        async with tcp_server(idle) as place:
            connection = await WyomingServer(f"tcp://{place}").connect()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.send(bytes(50_000_000)), 0.2)
            begin_s = time.perf_counter()
            await connection.close()
            await connection.close()
            taken_s = time.perf_counter() - begin_s
            with pytest.raises(ServerError):
                await connection.send(b"x")
            with pytest.raises(ServerError):
                _ = [event async for event in connection.events()]
            assert await connection.ping() is None
            return taken_s

    assert asyncio.run(main()) < 3


LINES = st.dictionaries(
    st.sampled_from(["type", "data", "data_length", "payload_length"]),
    st.sampled_from(["transcript", "transcript-start", "transcript-chunk", "transcript-stop", "error", "voice-stopped"])
    | st.integers(-2, 40) | st.floats() | st.none() | st.text(max_size=4)
    | st.dictionaries(st.sampled_from(["text", "code"]), st.text(max_size=5) | st.integers(), max_size=2),
    max_size=4,
).map(lambda value: json.dumps(value).encode() + b"\n")  # fmt: skip


@settings(max_examples=300)
@given(st.lists(LINES | st.binary(max_size=30), max_size=6).map(b"".join))
def test_whatever_comes_in_ends_in_texts_or_in_a_server_error(content: bytes) -> None:
    async def main() -> list[ServerEvent] | ServerError:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        connection = WyomingConnection(reader, None, WyomingServer("tcp://localhost:1"))  # type: ignore[arg-type]
        connection._ended.set()
        try:
            return [event async for event in connection.events()]
        except ServerError as error:
            return error

    outcome = asyncio.run(main())
    if isinstance(outcome, ServerError):
        assert outcome.reason in ("garbage", "closed", "error")
        assert str(outcome).encode()
    else:
        assert all(event.text is None or event.text.encode() is not None for event in outcome)


def test_it_is_made_by_its_name_and_refuses_what_is_no_address() -> None:
    server = make_server("wyoming:tcp://localhost:10300,language=de")
    assert isinstance(server, Server)
    assert server.info.language == "de"
    for address in ("localhost:10300", "tcp://localhost", "unix:///run/x", "tcp://:10300", "tcp://host:999999"):
        with pytest.raises(StopwavError, match="is not an address"):
            WyomingServer(address)
