"""Servers by name: `NAME:ADDRESS[,key=value…]`, parsed as engines are; those of other packages by entry point."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from dataclasses import dataclass
from urllib.parse import urlsplit

from stopwav.engines.label import read_label
from stopwav.engines.registry import EngineSpec, parse_spec
from stopwav.errors import StopwavError
from stopwav.plugins import entry_points
from stopwav.servers.protocol import Server

GROUP = "stopwav.servers"


@dataclass(frozen=True)
class ServerEntry:
    """A kind of server: where its class is, the modules that it imports, how to install these, and a summary."""

    name: str
    target: str
    modules: tuple[str, ...]
    install: str
    summary: str
    example: str

    @property
    def installed(self) -> bool:
        """Whether the packages that it needs are there."""
        try:
            return all(importlib.util.find_spec(module) is not None for module in self.modules)
        except ModuleNotFoundError:  # the package that a module is in
            return False


def _built_in(name: str, target: str, modules: tuple[str, ...], extra: str, summary: str, example: str) -> ServerEntry:
    install = f"pip install 'stopwav[{extra}]'"
    return ServerEntry(name, f"stopwav.servers.{target}", modules, install, summary, f"{name}:{example}")


# Name, class, packages, extra, summary and an example of an address.
BUILT_IN = (
    _built_in(
        "vosk-server", "vosk_server:VoskServer", ("websockets",), "servers",
        "Vosk's WebSocket protocol: partials, word times in finals",
        "ws://localhost:2700",
    ),
    _built_in(
        "deepgram", "deepgram:Deepgram", ("websockets",), "servers",
        "Deepgram's /v1/listen: partials, finals, endpoints; key from DEEPGRAM_API_KEY",
        "wss://api.deepgram.com,model=nova-3",
    ),
    _built_in(
        "openai", "openai_upload:OpenAIUpload", ("aiohttp",), "servers",
        "OpenAI's /audio/transcriptions: whole files, also with stream=true; key from OPENAI_API_KEY",
        "http://localhost:8000/v1,model=whisper-1",
    ),
    _built_in(
        "openai-realtime", "openai_realtime:OpenAIRealtime", ("websockets",), "servers",
        "OpenAI's /realtime transcription sessions; dialect=vllm for vLLM's",
        "ws://localhost:8000/v1/realtime,model=whisper-1",
    ),
    _built_in(
        "sherpa-server", "sherpa_server:SherpaServer", ("websockets",), "servers",
        "sherpa-onnx's WebSocket servers, online and offline",
        "ws://localhost:6006",
    ),
    _built_in(
        "kyutai", "kyutai:Kyutai", ("websockets", "msgpack"), "servers",
        "Kyutai's /api/asr-streaming: words, pauses, the server's backlog; key from KYUTAI_API_KEY",
        "ws://localhost:8080",
    ),
    _built_in(
        "wyoming", "wyoming_server:WyomingServer", ("wyoming",), "servers",
        "the Wyoming protocol over TCP, as Home Assistant speaks it",
        "tcp://localhost:10300",
    ),
    _built_in(
        "riva", "riva:Riva", ("grpc", "google.protobuf"), "grpc",
        "NVIDIA Riva's streaming recognition over gRPC",
        "localhost:50051",
    ),
)  # fmt: skip


def available() -> list[ServerEntry]:
    """Return the kinds of servers, those of other packages included."""
    entries = list(BUILT_IN)
    for point in entry_points(GROUP):
        package = point.dist.name if point.dist is not None else ""
        summary = f"by the package {package}" if package else "by a package of others"
        entries.append(ServerEntry(point.name, point.value, (), f"pip install {package}", summary, f"{point.name}:…"))
    return entries


def find_server(spec: EngineSpec) -> ServerEntry | None:
    """Return the kind of server that a spec names; None where it names none."""
    return next((entry for entry in available() if entry.name == spec.name), None)


def is_server(text: str) -> bool:
    """Whether a text names a server, whatever else is wrong with it."""
    name = read_label(text).setting.partition(",")[0].partition(":")[0]
    return any(entry.name == name for entry in available())


def make_server(text: str) -> Server:
    """Return the client that a spec names; no connection is opened."""
    spec = parse_spec(text)
    entry = find_server(spec)
    if entry is None:
        names = ", ".join(entry.name for entry in available())
        raise StopwavError(f"unknown server {spec.name!r}; there are {names}")
    if not entry.installed:
        raise StopwavError(f"server {spec.name!r} needs packages that are not installed: {entry.install}")
    if spec.source is None:
        raise StopwavError(f"{spec.name}: give its address, such as {entry.example}")
    _check_no_secret(spec.name, spec.source)
    module, _, name = entry.target.partition(":")
    factory = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(factory).parameters
    unknown = [key for key in spec.options if key not in parameters]
    if unknown:
        options = ", ".join(list(parameters)[1:]) or "no options"
        raise StopwavError(f"server {spec.name!r} has no option {unknown[0]!r}; it takes {options}")
    server = factory(spec.source, **spec.options)
    if not isinstance(server, Server):
        raise StopwavError(f"server {spec.name!r}: {entry.target} lacks info, capabilities, encode or connect")
    return server


def _check_no_secret(name: str, address: str) -> None:
    """Raise where an address holds a password or key: it would be in the run file, in pages and in messages."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.username or parts.password or parts.query:
        raise StopwavError(
            f"{name}: leave user, password and query out of the address: it is stored in the run file; "
            "keys come from the environment, and settings are options such as model=…"
        )
