"""Kyutai's protocol: words and backlog worked out by hand, pauses, a full server, and whatever a server may send."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import CHUNK, FakeSocket, Script, endpoints, failure, listen, listen_to, texts, websocket_server

from stopwav.errors import StopwavError
from stopwav.servers.kyutai import FRAME, Kyutai, KyutaiConnection
from stopwav.servers.protocol import ServerError, ServerEvent
from stopwav.servers.registry import make_server
from stopwav.servers.websocket import WebSocket
from stopwav.studies.paced_session import run_session

pytest.importorskip("websockets")
msgpack = pytest.importorskip("msgpack")


def packed(kind: str, **fields: Any) -> bytes:
    return bytes(msgpack.packb({"type": kind, **fields}))


def step(buffered: int = 0, pause: float = 0.0) -> bytes:
    return packed("Step", step_idx=0, prs=[0.0, 0.0, pause, 0.0], buffered_pcm=buffered)


MARKER = packed("Marker", id=0)


class MoshiScript(Script):
    """It answers chunks as written, and the marker after some frames of silence, as a model that is behind does."""

    delay_frames = 6

    async def __call__(self, connection: Any) -> None:
        self.headers, self.path = dict(connection.request.headers.raw_items()), connection.request.path
        await self._say(connection, self.at_once)
        chunks = frames_left = 0
        async for message in connection:
            heard = msgpack.unpackb(message)
            self.heard.append(heard)
            if heard["type"] == "Marker":
                frames_left = self.delay_frames
            elif frames_left:
                frames_left -= 1
                if not frames_left:
                    await self._say(connection, self.at_end)
            else:
                await self._say(connection, self.per_chunk[chunks] if chunks < len(self.per_chunk) else ())
                chunks += 1


def run(script: Script, chunks: int, **options: Any) -> list[ServerEvent]:
    async def main() -> list[ServerEvent]:
        async with websocket_server(script) as address:
            return await listen(Kyutai(address, **options), chunks)

    return asyncio.run(main())


def fail(script: Script) -> ServerError:
    async def main() -> ServerError:
        async with websocket_server(script) as address:
            return await failure(Kyutai(address))

    return asyncio.run(main())


def test_words_are_joined_and_the_marker_ends_the_stream() -> None:
    script = MoshiScript(
        at_once=[packed("Ready")],
        per_chunk=[
            [step(), packed("Word", text="Hello", start_time=0.1)],
            [step(), packed("EndWord", stop_time=0.4), packed("Word", text="there,", start_time=0.5)],
        ],
        at_end=[step(), packed("Word", text="you.", start_time=0.8), packed("EndWord", stop_time=1.0), MARKER],
    )
    events = run(script, 2)
    assert [text for text in texts(events) if text is not None] == ["Hello", "Hello there,", "Hello there, you."]
    assert not any(endpoints(events))
    assert script.path == "/api/asr-streaming"
    assert script.headers["kyutai-api-key"] == "public_token"
    assert [len(heard["pcm"]) for heard in script.heard[:2]] == [len(CHUNK)] * 2
    assert script.heard[2] == {"type": "Marker", "id": 0}
    assert {len(heard["pcm"]) for heard in script.heard[3:]} == {FRAME}


def test_the_backlog_is_whole_frames_and_belongs_to_the_words_behind_it() -> None:
    word = packed("Word", text="a", start_time=0.0)
    script = MoshiScript(
        per_chunk=[[step(FRAME - 1), word], [step(3 * FRAME + 7), word], [step(0), word]], at_end=[MARKER]
    )
    events = [event for event in run(script, 3) if event.text is not None]
    assert [event.parts["queue"] for event in events] == pytest.approx([0.0, 0.24, 0.0])


def test_the_backlog_is_the_queue_of_a_session() -> None:
    word = packed("Word", text="a", start_time=0.0)
    script = MoshiScript(per_chunk=[[step(5 * FRAME), word], [step(0), word]], at_end=[MARKER])

    async def main() -> Any:
        async with websocket_server(script) as address:
            server = Kyutai(address)
            return await run_session(server, [server.encode(CHUNK)] * 2, [0.05, 0.1, 0.1])

    log = asyncio.run(main())
    assert log.failure is None
    assert log.queue_s == pytest.approx([0.4, 0.0])
    remote = log.trace(0.1, 0.05, 0.0).remote
    assert remote is not None
    assert remote.queue_s == pytest.approx((0.4, 0.0))


def test_a_likely_pause_after_a_word_is_one_endpoint() -> None:
    word = packed("Word", text="yes", start_time=0.0)
    script = MoshiScript(
        per_chunk=[[step(pause=0.9)], [step(), word], [step(pause=0.6), step(pause=0.9)], [step(), word]],
        at_end=[step(pause=0.99), MARKER],
    )
    assert sum(endpoints(run(script, 4))) == 1
    assert sum(endpoints(run(script, 4, pause=0.95))) == 0


def test_models_without_pauses_have_no_endpoint() -> None:
    bare = packed("Step", step_idx=1, prs=[], buffered_pcm=0)
    script = MoshiScript(per_chunk=[[packed("Word", text="yes", start_time=0.0), bare]], at_end=[MARKER])
    assert not any(endpoints(run(script, 2)))


def test_a_full_server_refuses_and_an_error_is_one() -> None:
    full = fail(Script(at_once=[packed("Error", message="no free channels")]))
    assert full.reason == "refused"
    other = fail(Script(at_once=[packed("Error", message="out of memory")]))
    assert other.reason == "error"
    assert "out of memory" in str(other)


def test_a_server_that_closes_without_the_marker_closed_early() -> None:
    error = fail(Closing())
    assert error.reason == "closed"


class Closing(Script):
    """It says a word and goes."""

    async def __call__(self, connection: Any) -> None:
        await connection.send(packed("Word", text="a", start_time=0.0))
        await connection.close(1000)


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KYUTAI_API_KEY", "secret-of-twenty-chars")
    script = Script(at_once=[packed("Error", message="bad key secret-of-twenty-chars")])
    error = fail(script)
    assert script.headers["kyutai-api-key"] == "secret-of-twenty-chars"
    assert "secret-of" not in str(error)


@pytest.mark.parametrize("pause", [0, 1, -0.5, "much", True])
def test_impossible_pauses_are_refused(pause: Any) -> None:
    with pytest.raises(StopwavError, match="pause"):
        Kyutai("ws://localhost:8080", pause=pause)


def test_it_is_named_like_an_engine() -> None:
    server = make_server("kyutai:ws://localhost:8080,pause=0.6")
    assert server.info.sample_rate_hz == 24_000
    with pytest.raises(StopwavError, match="ws://HOST"):
        make_server("kyutai:http://localhost")


packable = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
kinds = st.sampled_from(["Word", "EndWord", "Step", "Marker", "Error", "Ready", "Other"])
replies = st.fixed_dictionaries(
    {"type": kinds | packable},
    optional=dict.fromkeys(("text", "prs", "buffered_pcm", "id", "message", "start_time"), packable),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary() | st.text() | replies.map(msgpack.packb) | packable.map(msgpack.packb), max_size=5))
def test_whatever_comes_is_an_event_or_a_named_error(messages: list[Any]) -> None:
    outcome = listen_to(KyutaiConnection(WebSocket(FakeSocket(messages), "kyutai")), 2)
    if isinstance(outcome, ServerError):
        assert outcome.reason in ("garbage", "closed", "error", "refused")
    else:
        assert all(event.text is None or isinstance(event.text, str) for event in outcome)
