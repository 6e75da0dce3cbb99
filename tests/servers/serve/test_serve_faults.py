"""Crashes of workers, disconnects and signals: what ends, what goes on, and that nothing is left behind."""

import json
import os
import signal
import threading
import time
from typing import Any

import psutil
import pytest
from serve_client import (
    END,
    close_code,
    connect,
    engine,
    floats,
    frame,
    metric,
    open_raw,
    pcm,
    request,
    reset,
    say,
    transcribe,
    until,
    wav,
    worker_pids,
)
from served_engines import CRASH, ERROR, HANG

from stopwav.servers.serve.background import BackgroundServer

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

LISTEN = "/v1/listen?encoding=linear16&sample_rate=16000"


def test_a_crash_ends_the_streams_of_its_worker_and_no_others() -> None:
    with BackgroundServer(engine("Counting"), "--workers", "2") as server:
        # New streams go to the worker with the fewest, so these two are in different workers.
        with connect(server) as crashing, connect(server) as other, connect(server, LISTEN) as companion:
            for socket in (crashing, other):
                socket.send(pcm(0.1))
                assert json.loads(socket.recv(timeout=20)) == {"partial": "w1"}
            companion.send(pcm(0.1))
            crashing.send(pcm(0.1, CRASH))
            assert close_code(crashing)[0] == 1011
            # In the same worker, though it sent nothing.
            error = json.loads(companion.recv(timeout=20))
            assert (error["type"], error["variant"]) == ("Error", "crashed")
            assert close_code(companion)[0] == 1011
            other.send(pcm(0.1))
            assert json.loads(other.recv(timeout=20)) == {"partial": "w1 w2"}
            other.send(END)
            assert json.loads(other.recv(timeout=20)) == {"text": "w1 w2 end"}
        until(lambda: metric(server, "stopwav_workers_up") == 2)
        assert metric(server, "stopwav_worker_restarts_total") == 1
        assert metric(server, "stopwav_streams_failed_total", protocol="vosk", reason="crashed") == 1
        code, errors = server.stop()
    assert code == 0
    assert errors.count("\n") == 1
    assert "a worker ended (crashed (SIGABRT)) with 2 streams" in errors


def test_an_error_of_the_engine_ends_its_stream_alone(counting: BackgroundServer) -> None:
    with connect(counting) as failing, connect(counting) as other:
        failing.send(pcm(0.1, ERROR))
        code, reason = close_code(failing)
        assert code == 1011
        assert "told to fail" in reason
        other.send(pcm(0.1))
        assert json.loads(other.recv(timeout=20)) == {"partial": "w1"}
    with connect(counting, "/sherpa") as socket:
        socket.send(floats(0.1, ERROR))
        assert close_code(socket)[0] == 1011
    assert metric(counting, "stopwav_worker_restarts_total") == 0


def test_a_worker_that_is_killed_between_chunks_is_noticed_and_replaced() -> None:
    with BackgroundServer(engine("Counting")) as server, connect(server) as socket:
        socket.send(pcm(0.1))
        socket.recv(timeout=20)
        (worker,) = worker_pids(server)
        os.kill(worker, signal.SIGKILL)
        assert close_code(socket)[0] == 1011
        until(lambda: request(server, "GET", "/healthz")[0] == 200)
        assert say(server, [pcm(0.1)])[-1] == {"text": "w1 end"}
        assert worker_pids(server) != [worker]


def test_a_crash_is_an_error_of_openai_in_its_form(tmp_path: Any) -> None:
    file = tmp_path / "crashes.py"
    file.write_text(
        "import os\n"
        "from stopwav import EngineInfo\n"
        "class Crashes:\n"
        "    info = EngineInfo(name='crashes', version='1')\n"
        "    def transcribe(self, batch): os.abort()\n"
    )
    with BackgroundServer(f"{file}:Crashes") as server:
        status, body = transcribe(server, file=wav(0.1))
        assert (status, json.loads(body)["error"]["type"]) == (500, "server_error")
        until(lambda: request(server, "GET", "/healthz")[0] == 200)
        assert '"type": "error"' in transcribe(server, file=wav(0.1), stream="true")[1]


def stop_in_background(server: BackgroundServer) -> tuple[threading.Thread, list[tuple[int, str]]]:
    ends: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: ends.append(server.stop()))
    thread.start()
    return thread, ends


def test_open_streams_finish_after_sigterm_and_new_ones_are_refused() -> None:
    from websockets.exceptions import InvalidStatus

    with BackgroundServer(engine("Counting"), drain_limit_s=20.0) as server:
        with connect(server) as socket:
            socket.send(pcm(0.1))
            socket.recv(timeout=20)
            workers = worker_pids(server)
            thread, ends = stop_in_background(server)
            until(lambda: request(server, "GET", "/healthz")[0] == 503)
            with pytest.raises(InvalidStatus) as refused, connect(server):
                pass
            assert refused.value.response.status_code == 503
            socket.send(pcm(0.1))
            socket.send(END)
            assert [json.loads(socket.recv(timeout=20)) for _ in range(2)] == [
                {"partial": "w1 w2"}, {"text": "w1 w2 end"},
            ]  # fmt: skip
        thread.join(20)
        assert ends == [(0, "")]
        assert not any(map(psutil.pid_exists, workers))


@pytest.mark.parametrize("value", [0.0, HANG], ids=["waits for the client", "waits for the engine"])
def test_streams_that_do_not_finish_are_closed_with_1001(value: float) -> None:
    with BackgroundServer(engine("Counting"), drain_limit_s=0.3) as server:
        with connect(server) as socket:
            socket.send(pcm(0.1, value))
            if not value:
                socket.recv(timeout=20)
            workers = worker_pids(server)
            begin_s = time.monotonic()
            thread, ends = stop_in_background(server)
            assert close_code(socket) == (1001, "the server is ending")
            thread.join(20)
            assert time.monotonic() - begin_s < 10.0
        assert ends == [(0, "")]
        assert not any(map(psutil.pid_exists, workers))


def test_a_server_ends_with_its_parent() -> None:
    with BackgroundServer(engine("Counting")) as server:
        workers = worker_pids(server)
        assert server._process.stdin is not None
        server._process.stdin.close()
        server._process.stdin = None
        assert server._process.wait(20) == 0
        until(lambda: not any(map(psutil.pid_exists, workers)))


def disconnect_abruptly(server: BackgroundServer, number: int) -> None:
    """Go away without a word, at different moments of a stream."""
    raw = open_raw(server, ("/", "/sherpa", LISTEN)[number % 3])
    for _ in range(number % 4):
        raw.sendall(frame(2, pcm(0.1)))
    reset(raw)


def left_behind(server: BackgroundServer) -> tuple[int, int, float]:
    process = psutil.Process(server.pid)
    return process.num_fds(), len(process.children(recursive=True)), metric(server, "stopwav_tasks")


def check_disconnects(count: int) -> None:
    with BackgroundServer(engine("Counting"), "--max-streams", "600") as server:
        say(server, [pcm(0.1)])
        before = left_behind(server)
        for number in range(count):
            disconnect_abruptly(server, number)
        until(lambda: metric(server, "stopwav_streams_open") == 0)
        until(lambda: left_behind(server) == before)
        failed = sum(
            metric(server, "stopwav_streams_failed_total", protocol=protocol, reason="disconnected")
            for protocol in ("vosk", "sherpa", "deepgram")
        )
        assert failed == count
        assert say(server, [pcm(0.1)])[-1] == {"text": "w1 end"}


def test_disconnects_leave_nothing_behind() -> None:
    check_disconnects(50)


@pytest.mark.soak
def test_many_disconnects_leave_nothing_behind() -> None:
    check_disconnects(500)
