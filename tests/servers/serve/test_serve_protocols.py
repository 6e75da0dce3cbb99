"""Each protocol from end to end, with an engine whose texts tell what it heard."""

import json
from typing import Any

import pytest
from serve_client import close_code, connect, engine, floats, form, pcm, request, say, transcribe, wav
from served_engines import ENDPOINT, words

from stopwav.servers.serve.background import BackgroundServer

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

LISTEN = "/v1/listen?encoding=linear16&sample_rate=16000&channels=1"


def results(socket: Any, count: int) -> list[dict[str, Any]]:
    return [json.loads(socket.recv(timeout=20)) for _ in range(count)]


def transcript(message: dict[str, Any]) -> str:
    return str(message["channel"]["alternatives"][0]["transcript"])


def test_vosk_answers_every_message_once(counting: BackgroundServer) -> None:
    for path in ("/", "/vosk"):
        replies = say(counting, [pcm(0.1), pcm(0.2), b""], path)
        assert replies == [
            {"partial": "w1"},
            {"partial": "w1 w2 w3"},
            {"partial": "w1 w2 w3"},
            {"text": "w1 w2 w3 end"},
        ]


def test_vosk_ends_a_segment_where_the_engine_does(counting: BackgroundServer) -> None:
    replies = say(counting, [pcm(0.1), pcm(0.1, ENDPOINT), pcm(0.1)])
    assert replies == [{"partial": "w1"}, {"text": "w1 w2"}, {"partial": "w3"}, {"text": "w3 end"}]


def test_vosk_takes_a_sample_that_is_cut_between_messages(counting: BackgroundServer) -> None:
    data = pcm(0.3)
    assert say(counting, [data[:3201], data[3201:]])[-1] == {"text": "w1 w2 w3 end"}


def test_vosk_resamples(counting: BackgroundServer) -> None:
    with connect(counting) as socket:
        socket.send('{"config": {"sample_rate": 8000}}')
        socket.send(pcm(2.0, rate_hz=8000))
        socket.recv(timeout=20)
        socket.send('{"eof": true}')
        assert json.loads(socket.recv(timeout=20)) == {"text": words(32_000) + " end"}


def test_a_long_message_is_pushed_in_pieces_and_answered_once(counting: BackgroundServer) -> None:
    assert say(counting, [pcm(3.0)]) == [{"partial": words(48_000)}, {"text": words(48_000) + " end"}]


@pytest.mark.parametrize(
    "message", ["hello", "[1]", "{}", '{"config": {"sample_rate": "fast"}}', '{"config": 3}', "[" * 100_000]
)
def test_vosk_closes_on_what_it_does_not_have(counting: BackgroundServer, message: str) -> None:
    with connect(counting) as socket:
        socket.send(message)
        code, reason = close_code(socket)
    assert code == 1007
    assert reason


def test_deepgram_sends_partials_and_finals_and_metadata(counting: BackgroundServer) -> None:
    with connect(counting, f"{LISTEN}&interim_results=true&model=nova-3") as socket:
        socket.send(pcm(0.1))
        socket.send('{"type": "KeepAlive"}')
        socket.send(pcm(0.2, ENDPOINT))
        socket.send('{"type": "Finalize"}')
        socket.send(pcm(0.1))
        socket.send('{"type": "CloseStream"}')
        messages = results(socket, 6)
        assert close_code(socket)[0] == 1000
    *texts, metadata = messages
    kinds = [(message["is_final"], message["speech_final"], message["from_finalize"]) for message in texts]
    assert kinds == [
        (False, False, False), (True, True, False), (True, True, True), (False, False, False), (True, True, False),
    ]  # fmt: skip
    # The engine begins again after Finalize.
    assert [transcript(message) for message in texts] == ["w1", "w1 w2 w3", "end", "w1", "w1 end"]
    assert [message["start"] for message in texts] == [0.0, 0.0, 0.3, 0.3, 0.3]
    assert [message["duration"] for message in texts] == pytest.approx([0.1, 0.3, 0.0, 0.1, 0.1])
    assert metadata["type"] == "Metadata"
    assert metadata["duration"] == pytest.approx(0.4)
    assert metadata["request_id"] == texts[0]["metadata"]["request_id"]


def test_deepgram_sends_no_partials_unless_asked(counting: BackgroundServer) -> None:
    with connect(counting, LISTEN) as socket:
        socket.send(pcm(0.1))
        socket.send('{"type": "CloseStream"}')
        final, metadata = results(socket, 2)
    assert transcript(final) == "w1 end"
    assert metadata["type"] == "Metadata"


def test_deepgram_tells_of_messages_that_it_does_not_have(counting: BackgroundServer) -> None:
    with connect(counting, LISTEN) as socket:
        for message in ("hello", '{"type": "Configure"}', "[" * 100_000):
            socket.send(message)
            error = json.loads(socket.recv(timeout=20))
            assert (error["type"], error["variant"]) == ("Error", "SchemaError")
        socket.send('{"type": "CloseStream"}')
        assert [message["type"] for message in results(socket, 2)] == ["Results", "Metadata"]


@pytest.mark.parametrize("query", ["encoding=opus", "channels=2", "sample_rate=1", "sample_rate=x"])
def test_deepgram_refuses_options_that_are_not_supported(counting: BackgroundServer, query: str) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    status, body = request(counting, "GET", f"/v1/listen?{query}", headers=headers)
    assert status == 400
    assert json.loads(body)["err_code"] == "INVALID_QUERY_PARAMETER"


def test_deepgram_takes_a_whole_file(counting: BackgroundServer) -> None:
    status, body = request(counting, "POST", "/v1/listen?model=nova-3", wav(0.5))
    assert status == 200
    answer = json.loads(body)
    assert answer["results"]["channels"][0]["alternatives"][0]["transcript"] == "w1 w2 w3 w4 w5 end"
    assert answer["metadata"]["duration"] == pytest.approx(0.5)
    assert request(counting, "POST", "/v1/listen", b"no audio")[0] == 400


def test_sherpa_numbers_its_segments(counting: BackgroundServer) -> None:
    with connect(counting, "/sherpa") as socket:
        for message in (floats(0.1), floats(0.1, ENDPOINT), floats(0.1), "Done"):
            socket.send(message)
        texts = results(socket, 4)
        assert socket.recv(timeout=20) == "Done!"
        assert close_code(socket) == (1000, "")
    assert [(text["text"], text["segment"], text["is_final"]) for text in texts] == [
        ("w1", 0, False), ("w1 w2", 0, True), ("w3", 1, False), ("w3 end", 1, True),
    ]  # fmt: skip


def test_sherpa_turns_samples_that_are_not_numbers_into_silence(counting: BackgroundServer) -> None:
    with connect(counting, "/sherpa") as socket:
        socket.send(floats(0.1, float("nan")))
        socket.send(floats(0.1, float("inf")))
        assert [text["text"] for text in results(socket, 2)] == ["w1", "w1 w2"]
        socket.send("Stop")
        assert close_code(socket)[0] == 1007


def test_sherpa_alone_is_at_the_root_and_other_protocols_are_not_there() -> None:
    with BackgroundServer(engine("Counting"), "--protocol", "sherpa") as server:
        with connect(server) as socket:
            socket.send("Done")
            assert results(socket, 1) == [{"text": "", "segment": 0, "is_final": True}]
        assert request(server, "GET", "/v1/models")[0] == 404
        assert request(server, "GET", "/")[0] == 400


def test_openai_answers_in_each_format(counting: BackgroundServer) -> None:
    file = wav(0.3, rate_hz=48_000)
    assert transcribe(counting, file=file, model="whisper-1", response_format="text") == (200, "w1 w2 w3 end\n")
    status, body = transcribe(counting, file=file, model="whisper-1")
    assert status == 200
    assert json.loads(body)["text"] == "w1 w2 w3 end"
    verbose = json.loads(transcribe(counting, file=file, model="whisper-1", response_format="verbose_json")[1])
    assert (verbose["task"], verbose["language"], verbose["text"]) == ("transcribe", "en", "w1 w2 w3 end")
    assert verbose["duration"] == pytest.approx(0.3)


def test_openai_streams_words_that_do_not_change(counting: BackgroundServer) -> None:
    status, body = transcribe(counting, file=wav(0.3), model="whisper-1", stream="true")
    assert status == 200
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    *deltas, done = map(json.loads, lines)
    assert done == {"type": "transcript.text.done", "text": "w1 w2 w3 end"}
    assert [delta["delta"] for delta in deltas] == ["w1", " w2", " w3", " end"]


def test_openai_lists_its_model(counting: BackgroundServer) -> None:
    assert [model["id"] for model in json.loads(request(counting, "GET", "/v1/models")[1])["data"]] == ["counting"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "whisper-1"}, 400),
        ({"file": b"no audio"}, 400),
        ({"file": b""}, 400),
        ({"file": wav(0.1), "response_format": "srt"}, 400),
        ({"file": wav(0.1), "prompt": "x" * 100_000}, 413),
        ({"file": bytes(26 * 2**20)}, 413),
    ],
    ids=["no file", "no audio", "empty", "format", "long field", "large file"],
)
def test_openai_refuses_in_its_own_form(counting: BackgroundServer, fields: dict[str, Any], status: int) -> None:
    answered, body = transcribe(counting, **fields)
    assert answered == status
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_openai_refuses_what_is_no_form(counting: BackgroundServer) -> None:
    body, headers = form(file=wav(0.1))
    broken = {"Content-Type": headers["Content-Type"]}
    assert request(counting, "POST", "/v1/audio/transcriptions", b"{}", {"Content-Type": "application/json"})[0] == 400
    assert request(counting, "POST", "/v1/audio/transcriptions", body[: len(body) // 2], broken)[0] == 400
    assert request(counting, "POST", "/v1/audio/transcriptions", b"", broken)[0] == 400


def test_an_offline_engine_answers_at_the_end(whole: BackgroundServer) -> None:
    assert say(whole, [pcm(0.2), pcm(0.1)]) == [{"partial": ""}, {"partial": ""}, {"text": "w1 w2 w3"}]
    assert say(whole, []) == [{"text": ""}]
    with connect(whole, LISTEN) as socket:
        socket.send(pcm(0.1))
        socket.send('{"type": "Finalize"}')
        socket.send(pcm(0.2))
        socket.send('{"type": "CloseStream"}')
        first, last, _ = results(socket, 3)
    assert (transcript(first), first["from_finalize"], transcript(last)) == ("w1", True, "w1 w2")
    with connect(whole, "/sherpa") as socket:
        socket.send(floats(0.2))
        socket.send("Done")
        assert results(socket, 1)[0]["text"] == "w1 w2"
    assert json.loads(transcribe(whole, file=wav(0.2))[1])["text"] == "w1 w2"
    events = transcribe(whole, file=wav(0.2), stream="true")[1]
    assert '{"type": "transcript.text.delta", "delta": "w1 w2"}' in events


def test_an_offline_engine_collects_no_more_than_it_may(whole: BackgroundServer) -> None:
    chunk = pcm(125.0)
    with connect(whole) as socket:
        for _ in range(12):
            socket.send(chunk)
            assert json.loads(socket.recv(timeout=60)) == {"partial": ""}
        socket.send(chunk)
        assert close_code(socket)[0] == 1009
    status, body = transcribe(whole, file=_flac(1_501))
    assert (status, json.loads(body)["error"]["code"]) == (413, "too_large")


def _flac(seconds: int) -> bytes:
    import io

    import numpy as np
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.zeros(seconds * 8_000, np.float32), 8_000, format="FLAC")
    return file.getvalue()
