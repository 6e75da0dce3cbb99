"""`stopwav serve`: an engine behind the protocols of Vosk, Deepgram, OpenAI and sherpa-onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.servers.serve.options import (
    DEFAULT_DRAIN_LIMIT_S,
    DEFAULT_IDLE_LIMIT_S,
    DEFAULT_MAX_BATCH,
    DEFAULT_MAX_STREAMS,
    DEFAULT_MAX_WAIT_MS,
    DEFAULT_PORT,
    PROTOCOLS,
)

if TYPE_CHECKING:
    from stopwav.servers.serve.server import ReadyServer


def serve(
    engine: Annotated[str, typer.Argument(help="The engine, as NAME[:SOURCE][,key=value…]; streaming or offline.")],
    protocol: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"A protocol to speak: {', '.join(PROTOCOLS)}; repeatable. All by default."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; by default only this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.")] = DEFAULT_PORT,
    workers: Annotated[int, typer.Option(help="Processes with the engine; streams are shared out among them.")] = 1,
    max_streams: Annotated[
        int, typer.Option(help="Streams per worker; more are refused with the protocol's own code.")
    ] = DEFAULT_MAX_STREAMS,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="STOPWAV_TOKEN",
            show_envvar=False,
            help="Token that clients have to send; better given as STOPWAV_TOKEN, as others can list arguments.",
        ),
    ] = None,
    idle_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="End a stream whose client sends or reads nothing for so long.")
    ] = DEFAULT_IDLE_LIMIT_S,
    drain_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for open streams to finish after SIGTERM or Ctrl-C.")
    ] = DEFAULT_DRAIN_LIMIT_S,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="End with standard input too, so with the parent process.")
    ] = False,
    max_batch: Annotated[
        int,
        typer.Option(help="Streams advanced in one call, by engines that can: at most so many; 1 for each on its own."),
    ] = DEFAULT_MAX_BATCH,
    max_wait: Annotated[
        float, typer.Option(metavar="MS", help="How long the first chunk of a batch waits for others.")
    ] = DEFAULT_MAX_WAIT_MS,
    json: Json = False,
) -> None:
    """Put an engine behind the protocols of Vosk, Deepgram, OpenAI and sherpa-onnx, all on one port."""
    from stopwav.servers.serve.options import ServeOptions, check_packages, parse_protocols

    check_packages()
    options = ServeOptions(
        engine, parse_protocols(protocol or ()), host, port, workers, max_streams, token, idle_limit, drain_limit,
        until_eof, max_batch, max_wait,
    )  # fmt: skip
    from stopwav.servers.serve.server import serve as run_server

    def print_ready(ready: ReadyServer) -> None:
        (_print_json if json else _print_line)(ready)
        if options.token is None and not options.is_local:
            _warn(f"no --token: everyone who reaches {host} can use this server")

    run_server(options, print_ready, _warn)


def _print_line(ready: ReadyServer) -> None:
    protocols = ", ".join(ready.protocols)
    print(f"stopwav: serving {ready.engine} on {ready.url} ({protocols}); Ctrl-C ends it", flush=True)


def _print_json(ready: ReadyServer) -> None:
    import json

    where = {"engine": ready.engine, "host": ready.host, "port": ready.port, "protocols": list(ready.protocols)}
    print(json.dumps({**where, "info": ready.info.to_json()}), flush=True)


def _warn(line: str) -> None:
    import sys

    from stopwav.report.text import plain

    print(f"stopwav: {plain(line, 1000)}", file=sys.stderr, flush=True)
