"""`stopwav report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.options import Json


def report(
    run: Annotated[Path, typer.Argument(help="A run file.")],
    every_metric: Annotated[bool, typer.Option("--all", help="Print every metric with its interval.")] = False,
    json: Json = False,
) -> None:
    """Print what a run found, computed again from its file."""
    from stopwav.cli.output import print_results
    from stopwav.record import Record

    print_results(Record.read(run), as_json=json, every_metric=every_metric)
