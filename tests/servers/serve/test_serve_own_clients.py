"""stopwav's own clients of the protocols, pointed at `stopwav serve`: both sides agree on every protocol."""

import asyncio

import numpy as np
import pytest
from served_engines import ENDPOINT, words

from stopwav.servers.protocol import ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.serve.background import BackgroundServer

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that no server of others sees."""
    for name in ("DEEPGRAM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "none")


async def events_of(spec: str, values: list[float]) -> list[ServerEvent]:
    """What a server sends for chunks of a tenth of a second, each of one value."""
    server = make_server(spec)
    connection = await server.connect()
    events = []

    async def read() -> None:
        async for event in connection.events():
            events.append(event)

    reader = asyncio.ensure_future(read())
    try:
        for value in values:
            await connection.send(server.encode(np.full(1600, value, np.float32)))
        await connection.end()
        await asyncio.wait_for(reader, 20)
    finally:
        reader.cancel()
        await connection.close()
    return events


@pytest.mark.parametrize(
    ("name", "address"),
    [("vosk-server", ""), ("sherpa-server", "/sherpa"), ("deepgram", "")],
    ids=["vosk", "sherpa", "dg"],
)
def test_partials_and_the_final_text_arrive(counting: BackgroundServer, name: str, address: str) -> None:
    events = asyncio.run(events_of(f"{name}:{counting.url('ws', address)}", [0.0] * 4))
    texts = [event.text for event in events if event.text is not None]
    assert texts[:4] == [words(1600 * count) for count in range(1, 5)]
    assert texts[-1] == "w1 w2 w3 w4 end"
    assert not any(event.endpoint for event in events)


def test_an_upload_is_transcribed(counting: BackgroundServer) -> None:
    events = asyncio.run(events_of(f"openai:{counting.url('http', '/v1')},model=any", [0.0] * 4))
    assert events[-1].text == "w1 w2 w3 w4 end"


@pytest.mark.parametrize(("name", "address"), [("vosk-server", ""), ("deepgram", "")])
def test_an_endpoint_of_the_engine_is_one_of_the_server(counting: BackgroundServer, name: str, address: str) -> None:
    # Only samples that are sent as they are end the utterance.
    events = asyncio.run(events_of(f"{name}:{counting.url('ws', address)}", [0.0, ENDPOINT, 0.0]))
    assert [event.text for event in events if event.endpoint] == ["w1 w2"]
    assert [event.text for event in events if event.text][-1] == "w1 w2 w3 end"
