"""Frames that are read and written beside the package: whatever comes in, it is as if by the package itself."""

import asyncio
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode, apply_mask
from websockets.server import ServerProtocol

from stopwav.servers.timed_connection import client_frame
from stopwav.servers.websocket import open_websocket


def server_frame(first, payload):
    length = len(payload)
    if length < 126:
        return struct.pack("!BB", first, length) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 3200, 65_535, 65_536, 100_000])
@pytest.mark.parametrize("kind", [bytes, str])
def test_a_frame_of_ours_is_what_the_package_reads(length, kind):
    message = random.Random(length).randbytes(length) if kind is bytes else "é" * (length // 2) + "e" * (length % 2)
    data = client_frame(message)
    payload = message if kind is bytes else message.encode()
    start = 2 + (0 if length < 126 else 2 if length < 1 << 16 else 8)
    assert data[0] == (0x82 if kind is bytes else 0x81)
    assert data[1] & 0x80
    assert apply_mask(data[start + 4 :], data[start : start + 4]) == payload
    opcode = Opcode.BINARY if kind is bytes else Opcode.TEXT
    # But for the mask it is the package's own, bit by bit.
    assert len(data) == len(Frame(opcode, payload).serialize(mask=True))
    assert data[:start] == Frame(opcode, payload).serialize(mask=True)[:start]


def test_masks_differ():
    assert len({client_frame(b"same") for _ in range(50)}) == 50


async def received(pieces):
    """What a client reads of a server that sends these pieces of bytes after the handshake, and what it sends back."""
    heard = []

    async def serve(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        protocol = ServerProtocol()
        protocol.receive_data(request)
        (event,) = protocol.events_received()
        protocol.send_response(protocol.accept(event))
        for data in protocol.data_to_send():
            writer.write(data)
        await writer.drain()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.0005)
        while not any(opcode is Opcode.CLOSE for opcode, _ in heard) and (data := await reader.read(1000)):
            protocol.receive_data(data)
            heard.extend((event.opcode, bytes(event.data)) for event in protocol.events_received())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    socket = await open_websocket("test", f"ws://127.0.0.1:{port}")
    async with asyncio.timeout(10):
        messages = [message async for _, message in socket.messages()]
    await socket.close()
    server.close()
    return messages, heard


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(
    st.lists(
        st.tuples(st.sampled_from(["text", "binary", "parts", "ping", "long", "longest"]), TEXTS),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(1, 400), max_size=20),
)
@settings(max_examples=60)
def test_messages_in_any_pieces_are_read_in_order(messages, cuts):
    stream, expected, pings = b"", [], []
    for kind, text in messages:
        payload = text.encode()
        if kind == "parts":
            # A ping may come between the frames of a message.
            half = len(payload) // 2
            stream += server_frame(0x01, payload[:half]) + server_frame(0x89, b"between")
            stream += server_frame(0x00, b"") + server_frame(0x80, payload[half:])
            pings.append(b"between")
            expected.append(text)
        elif kind == "ping":
            stream += server_frame(0x89, payload[:100])
            pings.append(payload[:100])
        else:
            times = {"long": 400, "longest": 70_000}.get(kind, 0) // max(1, len(payload)) + 1
            stream += server_frame(0x82 if kind == "binary" else 0x81, payload * times)
            expected.append(payload if kind == "binary" else text * times)
    stream += server_frame(0x88, struct.pack("!H", 1000))
    pieces, position = [], 0
    for cut in cuts:
        pieces.append(stream[position : position + cut])
        position += cut
    pieces = [piece for piece in [*pieces, stream[position:]] if piece]
    read, heard = asyncio.run(received(pieces))
    assert read == expected
    assert [data for opcode, data in heard if opcode is Opcode.PONG] == pings
