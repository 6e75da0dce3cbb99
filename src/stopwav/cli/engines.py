"""`stopwav engines`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stopwav.cli.options import Json

if TYPE_CHECKING:
    from stopwav.engines.registry import EngineEntry
    from stopwav.servers.registry import ServerEntry


def engines(json: Json = False) -> None:
    """List the engines and the kinds of servers: installed or how to install, version, streaming or not."""
    from stopwav.engines.registry import available
    from stopwav.servers.registry import available as kinds_of_servers
    from stopwav.studies.engine_check import streaming_or_problem

    entries = available()
    known = streaming_or_problem(entries)
    rows = [_row(entry, *answer) for entry, answer in zip(entries, known, strict=True)]
    servers = [_server_row(entry) for entry in kinds_of_servers()]
    if json:
        import json as encoder

        print(encoder.dumps({"engines": rows, "servers": servers}))
        return
    from stopwav.cli.output import show_document
    from stopwav.report.document import Document, Note, simple_table

    lines = []
    for row in rows:
        state = f"installed, {row['version']}" if row["installed"] else f"missing: {row['install']}"
        streams = {True: "yes", False: "no", None: "?"}[row["streaming"]]
        lines.append((row["name"], state, streams, row["summary"]))
    table = simple_table(("engine", "state", "streams", "what it is"), lines)
    problems = [Note(row["problem"], quiet=False) for row in rows if row["problem"]]
    note = Note("your own: path/to/my_engine.py:MyEngine (docs/guides/your-own-engine.md)", quiet=False)
    listed = [
        (row["example"], "installed" if row["installed"] else f"missing: {row['install']}", row["summary"])
        for row in servers
    ]
    remote = simple_table(("server, for latency", "state", "what it is"), listed)
    show_document(Document("Engines", (table, *problems, note, remote)))


def _server_row(listed: ServerEntry) -> dict[str, Any]:
    """A line of the list of servers."""
    return {
        "name": listed.name,
        "installed": listed.installed,
        "install": listed.install,
        "summary": listed.summary,
        "example": listed.example,
    }


def _row(listed: EngineEntry, streaming: bool | None, problem: str) -> dict[str, Any]:
    """A line of the list; `problem` says why an engine that is installed does not import, or is empty."""
    return {
        "name": listed.name,
        "installed": listed.version is not None,
        "version": listed.version,
        "streaming": streaming,
        "install": listed.install,
        "summary": listed.summary,
        "problem": problem,
    }
