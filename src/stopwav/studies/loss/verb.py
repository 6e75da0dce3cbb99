"""The verb `stopwav loss` besides measuring: the list of losses, and the operators of profiled ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stopwav.record import Record
from stopwav.studies.study import Verb


def _prepare(settings: dict[str, Any], given: Sequence[str]) -> dict[str, Any] | None:
    """Return the settings to run with; None where only the list was asked for."""
    if settings["listed"]:
        _print_list(as_json=settings["json"])
        return None
    return settings


def _after(record: Record, settings: Mapping[str, Any]) -> None:
    """Print where the traces lie, and the operators that took most of each loss's profiled steps."""
    if not settings["profile"]:
        return
    from stopwav.profiling.analysis import analyse
    from stopwav.studies.loss.traces import profiles_of, recorded_text
    from stopwav.studies.traces import traces_folder

    folder = traces_folder(record)
    print(f"stopwav: traces in {folder} (open them at ui.perfetto.dev or chrome://tracing)", file=sys.stderr)
    for piece in profiles_of(record):
        print(f"\n{piece.key[1]}, {piece.key[2]}: {recorded_text(piece)}", file=sys.stderr)
        analyse(record.path.parent / Path(piece.data["files"][0]).parent)


def _print_list(*, as_json: bool) -> None:
    from stopwav.losses.registry import BUILT_IN

    rows = [
        {
            "name": listed.name,
            "installed": listed.version is not None,
            "version": listed.version,
            "install": listed.install,
            "needs": listed.installed_needs.description(),
            "devices": list(listed.needs.devices),
            "summary": listed.summary,
        }
        for listed in BUILT_IN
    ]
    if as_json:
        import json

        print(json.dumps({"losses": rows}))
        return
    from stopwav.cli.output import show_document
    from stopwav.report.document import Document, Note, simple_table

    lines = []
    for row in rows:
        state = f"installed, {row['version']}" if row["installed"] else f"missing: {row['install']}"
        lines.append((str(row["name"]), state, f"{row['summary']}; {row['needs']}"))
    table = simple_table(("loss", "state", "what it is, and what it needs"), lines)
    note = Note("your own: my_loss.py:my_loss (docs/guides/choosing-a-transducer-loss.md)", quiet=False)
    show_document(Document("Losses", (table, note)))


VERB = Verb(
    options={
        "listed": Annotated[
            bool, typer.Option("--list", help="List the losses: what is installed, and how to get the rest.")
        ]
    },
    prepare=_prepare,
    after=_after,
)
