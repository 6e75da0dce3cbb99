"""`stopwav engines`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stopwav.cli.options import Json

if TYPE_CHECKING:
    from stopwav.engines.registry import EngineEntry


def engines(json: Json = False) -> None:
    """List the engines: installed or how to install, version, streaming or not."""
    from stopwav.engines.registry import available
    from stopwav.studies.engine_check import streaming_or_problem

    entries = available()
    known = streaming_or_problem(entries)
    rows = [_row(entry, *answer) for entry, answer in zip(entries, known, strict=True)]
    if json:
        import json as encoder

        print(encoder.dumps({"engines": rows}))
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
    show_document(Document("Engines", (table, *problems, note)))


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
