"""`stopwav engines`."""

from __future__ import annotations

from stopwav.cli.options import Json


def engines(json: Json = False) -> None:
    """List the engines: installed or how to install, version, streaming or not."""
    from stopwav.engines.registry import available, is_streaming

    rows = [
        {
            "name": listed.name,
            "installed": listed.version is not None,
            "version": listed.version,
            "streaming": is_streaming(listed),
            "install": listed.install,
            "summary": listed.summary,
        }
        for listed in available()
    ]
    if json:
        import json as encoder

        print(encoder.dumps({"engines": rows}))
        return
    from stopwav.cli.output import show_document
    from stopwav.report.document import Document, Note, simple_table

    lines = []
    for row in rows:
        state = f"installed, {row['version']}" if row["installed"] else f"missing: {row['install']}"
        streams = {True: "yes", False: "no", None: "?"}[row["streaming"]]  # type: ignore[index]
        lines.append((str(row["name"]), state, streams, str(row["summary"])))
    table = simple_table(("engine", "state", "streams", "what it is"), lines)
    note = Note("your own: path/to/my_engine.py:MyEngine (docs/guides/your-own-engine.md)", quiet=False)
    show_document(Document("Engines", (table, note)))
