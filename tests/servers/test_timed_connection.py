"""Messages that are sent without waiting, and the time of each that comes in, however late it is read."""

import asyncio
import itertools
import time

import pytest
from websockets.asyncio.server import serve

from stopwav.servers.websocket import open_websocket

MESSAGES = ["", "é" * 200, b"", b"\x00\xff" * 70_000, "last"]
PAUSE_S = 0.05


async def echoed(read_after_s):
    """What comes back of messages sent at once, the times at which it came, and when the reader began."""

    async def answer(socket):
        async for message in socket:
            await socket.send(message)
            await asyncio.sleep(PAUSE_S)

    async with serve(answer, "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        client = await open_websocket("test", f"ws://127.0.0.1:{port}")
        for message in MESSAGES:
            if not client.send_now(message):
                await client.send(message)
        await asyncio.sleep(read_after_s)
        begin_ns = time.perf_counter_ns()
        received = []
        async for at_ns, message in client.messages():
            received.append((at_ns, message))
            if len(received) == len(MESSAGES):
                break
        await client.close()
    return received, begin_ns


@pytest.mark.parametrize("read_after_s", [0.0, PAUSE_S * len(MESSAGES) + 0.2])
def test_messages_keep_the_time_at_which_they_came(read_after_s):
    received, begin_ns = asyncio.run(echoed(read_after_s))
    assert [message for _, message in received] == MESSAGES
    times_ns = [at_ns for at_ns, _ in received]
    assert times_ns == sorted(times_ns)
    # They came one pause apart, whenever they were read.
    assert all(later - earlier > 0.8e9 * PAUSE_S for earlier, later in itertools.pairwise(times_ns))
    assert (times_ns[-1] < begin_ns) == (read_after_s > 0)


def test_nothing_is_sent_at_once_on_a_connection_that_is_closed():
    async def closed():
        async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0) as server:
            client = await open_websocket("test", f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            first = client.send_now("hello")
            await client.close()
            return first, client.send_now("too late")

    assert asyncio.run(closed()) == (True, False)
