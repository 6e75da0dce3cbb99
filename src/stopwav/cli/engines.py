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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("engine", "state", "streams", "what it is"):
        table.add_column(heading)
    for row in rows:
        state = f"installed, {row['version']}" if row["installed"] else f"missing: {row['install']}"
        streams = {True: "yes", False: "no", None: "?"}[row["streaming"]]  # type: ignore[index]
        table.add_row(str(row["name"]), state, streams, str(row["summary"]))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print("your own: path/to/my_engine.py:MyEngine (docs/guides/your-own-engine.md)", highlight=False)
