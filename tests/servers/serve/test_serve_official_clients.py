"""Real recognisers behind `serve`, and the clients that OpenAI and Deepgram publish in front of it."""

import importlib.util
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from serve_client import say

from stopwav.servers.serve.background import BackgroundServer
from stopwav.speech.audio import load
from stopwav.speech.corpus import Utterance, bundled_corpus

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

TOKEN = "correct-horse-battery"
ENGINE = "moonshine" if importlib.util.find_spec("moonshine_voice") else "pocketsphinx"


def short_clips(count: int) -> list[Utterance]:
    """The smallest files of the bundled corpus."""
    return sorted(bundled_corpus().utterances, key=lambda utterance: utterance.path.stat().st_size)[:count]


def chunks(utterance: Utterance) -> list[bytes]:
    """Its audio as 16-bit samples, in tenths of a second."""
    data = load(utterance.path, 16_000).pcm16().tobytes()
    return [data[begin : begin + 3200] for begin in range(0, len(data), 3200)]


def is_near(text: str) -> bool:
    """Whether it is the text of the second clip, to a word or its writing."""
    return "thank you very much" in text.lower().replace(".", "")


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundServer]:
    with BackgroundServer(ENGINE, token=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def clip() -> Utterance:
    return next(utterance for utterance in short_clips(3) if utterance.text == "Thank you very much.")


def test_the_openai_client_transcribes_and_streams(server: BackgroundServer, clip: Utterance) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url("http", "/v1"), api_key=TOKEN, max_retries=0)
    assert [model.id for model in client.models.list()] == [ENGINE]
    transcription = client.audio.transcriptions.create(model="whisper-1", file=clip.path)
    assert is_near(transcription.text)
    verbose = client.audio.transcriptions.create(model="whisper-1", file=clip.path, response_format="verbose_json")
    assert is_near(verbose.text)
    assert verbose.duration == pytest.approx(load(clip.path, 16_000).duration_s)
    events = list(client.audio.transcriptions.create(model="whisper-1", file=clip.path, stream=True))
    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert events[-1].type == "transcript.text.done"
    assert is_near(events[-1].text)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.BadRequestError, match="not readable as audio"):
        client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"no audio"))


def deepgram_client(server: BackgroundServer) -> Any:
    deepgram = pytest.importorskip("deepgram")
    from deepgram.environment import DeepgramClientEnvironment

    socket, page = server.url("ws"), server.url("http")
    environment = DeepgramClientEnvironment(base=page, production=socket, agent=socket, agent_rest=page)
    return deepgram.DeepgramClient(api_key=TOKEN, environment=environment)


def test_the_deepgram_client_streams(server: BackgroundServer, clip: Utterance) -> None:
    client = deepgram_client(server)
    messages: list[Any] = []
    options = {"encoding": "linear16", "sample_rate": 16_000, "interim_results": True, "model": "nova-3"}
    with client.listen.v1.connect(**options) as connection:
        listener = threading.Thread(target=lambda: messages.extend(connection))
        listener.start()
        for chunk in chunks(clip):
            connection.send_media(chunk)
        connection.send_keep_alive()
        connection.send_finalize()
        connection.send_close_stream()
        listener.join(30)
    *results, metadata = messages
    assert [type(message).__name__ for message in messages[-2:]] == ["ListenV1Results", "ListenV1Metadata"]
    assert metadata.duration == pytest.approx(load(clip.path, 16_000).duration_s)
    finalized = next(message for message in results if message.from_finalize)
    assert is_near(finalized.channel.alternatives[0].transcript)
    assert finalized.is_final
    assert any(not message.is_final for message in results)
    assert finalized.metadata.request_id == metadata.request_id


def test_the_deepgram_client_transcribes_a_file(server: BackgroundServer, clip: Utterance) -> None:
    response = deepgram_client(server).listen.v1.media.transcribe_file(request=clip.path.read_bytes(), model="nova-3")
    assert is_near(response.results.channels[0].alternatives[0].transcript)


def test_streams_of_an_engine_with_one_decoder_do_not_mix() -> None:
    """PocketSphinx has one stream at a time: in a worker, each stream gets a decoder of its own."""
    import json

    from serve_client import END, connect

    first, second = (chunks(utterance) for utterance in short_clips(3)[1:])
    with BackgroundServer("pocketsphinx") as server:
        alone = [say(server, first)[-1], say(server, second)[-1]]
        with connect(server) as one, connect(server) as two:
            for pair in itertools.zip_longest(first, second):
                for socket, chunk in zip((one, two), pair, strict=True):
                    if chunk is not None:
                        socket.send(chunk)
                        socket.recv(timeout=30)
            together = []
            for socket in (one, two):
                socket.send(END)
                together.append(json.loads(socket.recv(timeout=30)))
    assert together == alone
    assert "thank you very much" in (alone[0]["text"], alone[1]["text"])
