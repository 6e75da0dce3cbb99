"""Chunks of several streams in one call of the engine: the same texts as alone, and errors where they belong."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

from serve_client import END, close_code, connect, engine, floats, metric, pcm, until
from served_engines import CRASH, ERROR

from stopwav.servers.serve.background import BackgroundServer
from stopwav.servers.serve.batcher import Batcher
from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.host import FailedCall, RejectedAudio, StreamHost
from stopwav.servers.serve.intake import IntakeError, PcmIntake

STREAMS, CHUNKS = 4, 5


def final_text(server: BackgroundServer, barrier: threading.Barrier | None = None) -> str:
    """The final text of a client of Vosk's protocol, whose chunks go together with those of the others."""
    with connect(server) as socket:
        for _ in range(CHUNKS):
            if barrier is not None:
                barrier.wait(20)
            socket.send(pcm(0.1))
            socket.recv(timeout=20)
        socket.send(END)
        return str(json.loads(socket.recv(timeout=20))["text"])


def at_once(call: Callable[[], object]) -> list[Any]:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(call())) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.parametrize(("options", "largest"), [(("--max-wait", "500"), STREAMS), (("--max-batch", "1"), 0)])
def test_clients_get_together_what_each_gets_alone(options: tuple[str, ...], largest: int) -> None:
    with BackgroundServer(engine("Batching"), *options) as server:
        barrier = threading.Barrier(STREAMS)
        texts = at_once(lambda: final_text(server, barrier))
    assert texts == [f"w1 w2 w3 w4 w5 batch{largest}"] * STREAMS


def test_a_batch_has_no_more_than_was_asked_for() -> None:
    with BackgroundServer(engine("Batching"), "--max-wait", "500", "--max-batch", "2") as server:
        barrier = threading.Barrier(STREAMS)
        assert at_once(lambda: final_text(server, barrier)) == ["w1 w2 w3 w4 w5 batch2"] * STREAMS


def test_a_worker_that_dies_in_a_batch_is_started_again() -> None:
    with BackgroundServer(engine("Batching")) as server:
        with connect(server) as socket:
            socket.send(pcm(0.1, CRASH))
            assert close_code(socket)[0] == 1011
        until(lambda: metric(server, "stopwav_workers_up") == 1)
        assert final_text(server) == "w1 w2 w3 w4 w5 batch1"


def opened_host(streams: int) -> StreamHost:
    host = StreamHost(engine("Batching"))
    assert host.describe().batching
    for number in range(streams):
        host.open(number, "float32", 16_000)
    return host


def test_audio_that_is_not_accepted_is_the_answer_of_its_stream_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = opened_host(3)
    feed = PcmIntake.feed

    def refuse_long(intake: PcmIntake, data: bytes) -> NDArray[np.float32]:
        if len(data) > len(floats(0.1)):
            raise IntakeError("garbage", "not these")
        return feed(intake, data)

    monkeypatch.setattr(PcmIntake, "feed", refuse_long)
    good, garbage, unknown = host.advance_all([(0, floats(0.1)), (1, floats(0.2)), (7, floats(0.1))])
    assert isinstance(good, list)
    assert [hypothesis.text for hypothesis in good] == ["w1"]
    assert isinstance(unknown, FailedCall)
    assert isinstance(garbage, RejectedAudio)
    assert garbage.reason == "garbage"
    ended = host.advance_all([(0, None), (2, None)])
    assert [[hypothesis.text for hypothesis in answer] for answer in ended if isinstance(answer, list)] == [
        ["w1 batch1"],
        [""],
    ]


def test_an_error_of_the_engine_is_the_answer_of_the_streams_of_its_batch() -> None:
    host = opened_host(3)
    answers = host.advance_all([(0, floats(0.1)), (1, floats(0.1, ERROR))])
    assert all(isinstance(answer, FailedCall) and "told to fail" in answer.message for answer in answers)
    (other,) = host.advance_all([(2, floats(0.1))])
    assert isinstance(other, list)


def test_while_a_batch_runs_the_next_one_gathers() -> None:
    sizes: list[int] = []

    async def advance(calls: Sequence[tuple[int, bytes | None]]) -> list[Any]:
        sizes.append(len(calls))
        assert len({number for number, _ in calls}) == len(calls)
        await asyncio.sleep(0.05)
        return [FailedCall("no") if number == 5 else [number] for number, _ in calls]

    async def run() -> list[Any]:
        batcher = Batcher(advance, max_batch=4, max_wait_s=0.02)
        first = asyncio.ensure_future(batcher.advance(0, b""))
        await asyncio.sleep(0.04)
        # Stream 1 twice: its chunks stay in their order, and go into two batches.
        others = [batcher.advance(number, b"") for number in (1, 2, 1, 3, 4, 5)]
        return [await first, *await asyncio.gather(*others, return_exceptions=True)]

    results = asyncio.run(run())
    assert results[:-1] == [[0], [1], [2], [1], [3], [4]]
    assert isinstance(results[-1], StreamFailure)
    assert sizes == [1, 4, 2]
