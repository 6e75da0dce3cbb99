"""`stopwav serve` on the command line: what it prints, and how it ends when something is wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from serve_client import engine

import stopwav
from stopwav.errors import StopwavError
from stopwav.servers.serve.background import BackgroundServer
from stopwav.servers.serve.options import PROTOCOLS, ServeOptions, parse_protocols
from stopwav.servers.serve.text_parts import AgreedWords, CutSegment, SegmentCutter
from stopwav.speech.events import Hypothesis

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("websockets")

SERVE = [sys.executable, "-m", "stopwav", "serve"]


def error_of(*arguments: str) -> str:
    """The one line that a command which cannot start prints."""
    ended = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    return ended.stderr


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in error_of("fake", "--port", str(port))


def test_an_engine_that_does_not_load_is_one_line() -> None:
    assert "no model here" in error_of(engine("Refuses"), "--port", "0", "--workers", "2")


def test_python_has_the_verb_under_its_name() -> None:
    with pytest.raises(StopwavError, match="no-such-engine"):
        stopwav.serve("no-such-engine")
    assert stopwav.BackgroundServer is BackgroundServer
    assert stopwav.ServeOptions is ServeOptions


def test_a_wrong_name_is_one_line() -> None:
    assert "unknown engine 'fak': did you mean 'fake'?" in error_of("fak")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 65_536}, "--port 65536"),
        ({"workers": 0}, "--workers 0"),
        ({"max_streams": 0}, "--max-streams 0"),
        ({"idle_limit_s": float("nan")}, "--idle-limit nan"),
        ({"drain_limit_s": -1.0}, "--drain-limit -1"),
        ({"token": "two\nlines\n"}, "--token: a token is"),
        ({"token": ""}, "--token: a token is"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(StopwavError, match=message) as error:
        ServeOptions("fake", **options)  # type: ignore[arg-type]
    assert "two" not in str(error.value)


def test_protocols_are_named_once_and_all_by_default() -> None:
    assert parse_protocols(["openai", "vosk", "openai"]) == ("openai", "vosk")
    assert parse_protocols([]) == PROTOCOLS
    with pytest.raises(StopwavError, match="did you mean 'deepgram'"):
        parse_protocols(["deepgran"])


def test_the_token_is_not_in_the_representation() -> None:
    assert "secret" not in repr(ServeOptions("fake", token="secret"))


def test_the_line_says_that_it_is_ready_and_ctrl_c_ends_it() -> None:
    command = [*SERVE, "fake", "--port", "0", "--protocol", "vosk", "--protocol", "openai"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert line.startswith("stopwav: serving fake on ws://127.0.0.1:")
    assert line.endswith(" (vosk, openai); Ctrl-C ends it\n")
    assert (process.returncode, rest, errors) == (0, "", "")


def test_the_json_line_has_the_port_and_the_protocols(tmp_path: Path) -> None:
    command = [*SERVE, "fake", "--port", "0", "--json", "--host", "0.0.0.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert (ready["host"], ready["protocols"]) == ("0.0.0.0", list(PROTOCOLS))
    assert ready["port"] > 0
    assert errors == "stopwav: no --token: everyone who reaches 0.0.0.0 can use this server\n"


def test_a_server_that_does_not_start_is_an_error_with_its_own_words() -> None:
    with pytest.raises(StopwavError, match="no model here"), BackgroundServer(engine("Refuses")):
        pass


def test_the_help_imports_no_package_of_servers() -> None:
    modules = "stopwav.cli.serve, stopwav.servers.serve.background, stopwav.servers.serve.server"
    code = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "websockets", "prometheus_client"} & set(loaded)


def test_segments_are_cut_at_endpoints() -> None:
    cutter = SegmentCutter()
    assert cutter.cut([Hypothesis("one"), Hypothesis("one two", endpoint=True)]) == [
        CutSegment("one", False), CutSegment("one two", True),
    ]  # fmt: skip
    assert cutter.cut([Hypothesis("one two three")]) == [CutSegment("three", False)]
    # What was final cannot be taken back.
    assert cutter.cut([Hypothesis("won two three four")]) == [CutSegment("three four", False)]
    assert cutter.partial == "three four"
    assert cutter.finish([]) == "three four"
    assert cutter.finish([Hypothesis("five", endpoint=True)]) == "five"


def test_words_are_sent_once_two_texts_agree_on_them() -> None:
    words = AgreedWords()
    partials = ["a", "a bee", "a be", "a be see", "a be see dee"]
    assert [words.add(partial) for partial in partials] == ["", "a", "", " be", " see"]
    assert words.finish("a be see de eh") == " de eh"
    assert words.finish("something else") == ""
