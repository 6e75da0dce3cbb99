"""Every way in which a WebSocket fails: refused, closed, broken, stuck; and that closing one always works."""

import asyncio
import contextlib
import datetime
import importlib.util
import ipaddress
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_servers import Script, failure, listen, tcp_server, texts, websocket_server

from stopwav.servers import websocket
from stopwav.servers.deepgram import Deepgram
from stopwav.servers.protocol import ServerError
from stopwav.servers.segments import SegmentedText
from stopwav.servers.sherpa_server import SherpaServer
from stopwav.servers.vosk_server import END, VoskServer
from stopwav.servers.websocket import WebSocket, open_websocket, parse_object

pytest.importorskip("websockets")

SERVERS = (VoskServer, SherpaServer, Deepgram)


def fail(handler: Any, kind: Any = VoskServer, **settings: Any) -> ServerError:
    async def main() -> ServerError:
        async with websocket_server(handler, **settings) as address:
            return await failure(kind(address))

    return asyncio.run(main())


def fail_on_tcp(handler: Any, kind: Any = VoskServer) -> ServerError:
    async def main() -> ServerError:
        async with tcp_server(handler) as place:
            return await failure(kind(f"ws://{place}"))

    return asyncio.run(main())


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 503])
def test_an_http_status_is_a_refusal_with_what_the_server_says(kind: Any, status: int) -> None:
    def respond(connection: Any, request: Any) -> Any:
        return connection.respond(status, "The server is busy.\nPlease retry later.")

    error = fail(Script(), kind, process_request=respond)
    assert (error.reason, error.close_code) == ("refused", status)
    assert "The server is busy. Please retry later." in str(error)


def test_a_redirect_is_refused_and_not_followed() -> None:
    visited = []

    async def visit(connection: Any) -> None:
        visited.append(connection)

    async def main() -> ServerError:
        async with websocket_server(visit) as other:

            def redirect(connection: Any, request: Any) -> Any:
                response = connection.respond(302, "")
                response.headers["Location"] = other
                return response

            async with websocket_server(Script(), process_request=redirect) as address:
                return await failure(VoskServer(address))

    error = asyncio.run(main())
    assert (error.reason, error.close_code) == ("refused", 302)
    assert not visited


def test_an_address_where_nobody_listens_is_refused() -> None:
    async def main() -> ServerError:
        async with websocket_server(Script()) as address:
            pass
        return await failure(VoskServer(address))

    error = asyncio.run(main())
    assert error.reason == "refused"
    assert "is the server running?" in str(error)


@pytest.mark.parametrize("content", [b"", b"hello\r\n\r\n", b"\0" * 99, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"])
def test_what_does_not_speak_websocket_is_refused(content: bytes) -> None:
    async def speak(reader: Any, writer: Any) -> None:
        await reader.readline()
        writer.write(content)
        await writer.drain()

    error = fail_on_tcp(speak)
    assert error.reason == "refused"
    assert "does not speak WebSocket" in str(error)


def test_a_server_that_accepts_and_says_nothing_is_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "OPEN_LIMIT_S", 0.05)

    async def idle(reader: Any, writer: Any) -> None:
        await asyncio.sleep(60)

    assert fail_on_tcp(idle).reason == "stalled"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine that no authority has signed, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    paths = folder / "certificate.pem", folder / "key.pem"
    if importlib.util.find_spec("cryptography") is not None:
        write_certificate(*paths)
        return paths
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("neither the package cryptography nor openssl is here to make a certificate")
    command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
               "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
               "-out", str(paths[0]), "-keyout", str(paths[1])]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"openssl does not make the certificate: {made.stderr[-200:]}")
    return paths


def write_certificate(certificate_path: Path, key_path: Path) -> None:
    """Write the same by the package cryptography."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    unsigned = unsigned.not_valid_before(now - datetime.timedelta(days=1))
    unsigned = unsigned.not_valid_after(now + datetime.timedelta(days=2))
    unsigned = unsigned.add_extension(x509.SubjectAlternativeName(places), critical=False)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    certificate_path.write_bytes(unsigned.sign(key, hashes.SHA256()).public_bytes(pem))
    key_path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


@pytest.mark.parametrize("kind", SERVERS)
def test_a_certificate_that_cannot_be_verified_is_refused(kind: Any, certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    heard = Script()
    error = fail(heard, kind, ssl=context)
    assert error.reason == "refused"
    assert "certificate" in str(error)
    assert not heard.path


def test_a_certificate_of_a_known_authority_is_accepted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the refusal above is that of the certificate, and not of TLS as such.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    known = ssl.create_default_context(cafile=str(certificate[0]))
    monkeypatch.setattr(websocket, "_tls", lambda: known)

    async def main() -> list[Any]:
        script = Script(at_end=[{"partial": "a"}, {"partial": "a"}, {"text": "a"}], ends=(END,))
        async with websocket_server(script, ssl=context) as address:
            return await listen(VoskServer(address))

    assert texts(asyncio.run(main())) == ["a", "a", "a"]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_connection_that_is_cut_is_closed_without_a_code(kind: Any) -> None:
    async def cut(connection: Any) -> None:
        await connection.recv()
        connection.transport.abort()

    error = fail(cut, kind)
    assert (error.reason, error.close_code) == ("closed", None)
    assert "lost" in str(error)


def test_a_server_that_closes_while_it_is_sent_to_has_its_code_there_too() -> None:
    async def main() -> ServerError:
        async def close(connection: Any) -> None:
            await connection.close(1013, "try again later")

        async with websocket_server(close) as address:
            socket = await open_websocket("test", address)
            await asyncio.sleep(0.05)
            with pytest.raises(ServerError) as caught:
                await socket.send(b"x")
            assert await socket.ping() is None
            await socket.close()
            return caught.value

    error = asyncio.run(main())
    assert (error.reason, error.close_code) == ("closed", 1013)
    assert "try again later" in str(error)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_message_that_is_too_long_is_garbage(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "LONGEST_MESSAGE_BYTES", 10_000)
    error = fail(Script(at_once=["x" * 20_000]), kind)
    assert (error.reason, error.close_code) == ("garbage", 1009)


@pytest.mark.parametrize(
    ("frame", "code"),
    [(b"\x81\x02\xff\xfe", 1007), (b"\x83\x00", 1002), (b"\xf1\x01a", 1002), (b"\x81\x81abcde", 1002)],
)
def test_frames_that_websocket_does_not_allow_are_garbage(frame: bytes, code: int) -> None:
    async def break_it(connection: Any) -> None:
        connection.transport.write(frame)
        await connection.wait_closed()

    error = fail(break_it)
    assert (error.reason, error.close_code) == ("garbage", code)


FRAMES = st.lists(
    st.builds(
        lambda first, payload: bytes([first, len(payload)]) + payload,
        st.sampled_from([0x81, 0x82, 0x01, 0x80, 0x88, 0x89, 0x8A, 0x83, 0xC1]),
        st.binary(max_size=20) | st.sampled_from([b'{"text": "a"}', b'{"partial": "a"}', b"Done!", b"\x03\xe8bye"]),
    )
    | st.binary(max_size=10),
    max_size=5,
).map(b"".join)


@settings(max_examples=60)
@given(FRAMES, st.sampled_from(SERVERS))
def test_whatever_bytes_come_in_end_in_texts_or_in_a_server_error(content: bytes, kind: Any) -> None:
    async def speak(connection: Any) -> None:
        await connection.recv()
        connection.transport.write(content)
        connection.transport.close()

    async def main() -> ServerError | None:
        async with websocket_server(speak) as address:
            try:
                await listen(kind(address), 1)
            except ServerError as error:
                return error
            return None

    error = asyncio.run(main())
    assert error is None or error.reason in ("closed", "garbage", "error")
    assert len(str(error)) < 250


def test_closing_works_at_any_moment_though_the_server_reads_nothing() -> None:
    async def closing_s(size: int) -> float:
        from websockets.asyncio.server import serve

        async def stop(connection: Any) -> None:
            connection.transport.pause_reading()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

        server = await serve(stop, "127.0.0.1", 0)
        connection = await VoskServer(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}").connect()
        reader = asyncio.create_task(anext(connection.events()))  # type: ignore[arg-type]
        sender = asyncio.create_task(connection.send(bytes(size)))
        await asyncio.sleep(0.05)
        begin_s = time.perf_counter()
        await connection.close()
        await connection.close()
        taken_s = time.perf_counter() - begin_s
        outcomes = await asyncio.gather(reader, sender, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, ServerError) for outcome in outcomes)
        for connection_of_server in server.connections:
            connection_of_server.transport.abort()
        server.close()
        return taken_s

    # With little to send, and with more than the buffers between the two hold.
    for size in (10, 50_000_000):
        assert asyncio.run(closing_s(size)) < 3


def test_the_time_of_a_message_is_when_it_came_in_not_when_it_is_read() -> None:
    async def main() -> tuple[int, list[int]]:
        async def speak(connection: Any) -> None:
            for _ in range(3):
                await connection.send("x")
            await connection.wait_closed()

        async with websocket_server(speak) as address:
            socket = await open_websocket("test", address)
            await asyncio.sleep(0.1)
            read_ns = time.perf_counter_ns()
            messages = socket.messages()
            times_ns = [(await anext(messages))[0] for _ in range(3)]
            assert (await socket.ping() or 0) > 0
            await socket.close()
            return read_ns, times_ns

    read_ns, times_ns = asyncio.run(main())
    assert times_ns == sorted(times_ns)
    assert times_ns[-1] < read_ns


def test_half_a_character_does_not_come_through() -> None:
    assert parse_object("test", r'{"text": "a\ud83d b"}') == {"text": "a? b"}
    assert parse_object("test", r'{"text": "\ud83d\ude00"}') == {"text": "😀"}


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_an_error_of_garbage_is_one_short_line(message: str | bytes) -> None:
    error = WebSocket(None, "test").garbage(message)
    assert len(str(error)) < 200
    assert "\n" not in str(error)
    assert str(error).encode()


def test_finals_are_joined_in_the_order_of_their_places() -> None:
    segments = SegmentedText()
    assert segments.change("a") == "a"
    assert segments.commit(" b ") == "b"
    assert segments.commit("d", 4.0) == "b d"
    assert segments.change("e", 6.0) == "b d e"
    assert segments.commit("c", 2.0, 4.0) == "b c d e"
    assert segments.change("x", 3.0) == "b c x d"
    assert segments.commit("y", 2.5, 3.5) == "b c y d"
    assert segments.put("Y", 2.5) == "b c Y d"
    assert segments.partial == ""


@given(st.permutations(list(enumerate("abcdef"))))
def test_finals_in_any_order_give_the_same_text(order: list[tuple[int, str]]) -> None:
    segments = SegmentedText()
    for place, text in order:
        segments.commit(text, float(place))
    assert segments.text == "a b c d e f"
