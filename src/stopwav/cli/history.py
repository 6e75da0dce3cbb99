"""`stopwav history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stopwav.cli.output import Found
    from stopwav.record import Result


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of run files.")],
    html: Annotated[Path | None, typer.Option(help="Where the page goes; default: history.html in the folder.")] = None,
    json: Json = False,
) -> None:
    """Show how every metric changed over the runs in a folder."""
    import sys

    from stopwav.report.presentation import presentation_of

    runs, skipped = _read(folder)
    for _, message in skipped:
        print(f"stopwav: passed over {message}", file=sys.stderr)
    followed = [found for found in runs if not presentation_of(found[0].header.study).of_training]
    for record, _ in runs:
        if presentation_of(record.header.study).of_training:
            print(f"stopwav: left out {record.path}: a {record.header.study} run is not followed", file=sys.stderr)
    if not (runs if json and html is None else followed):
        raise StopwavError(f"{folder}: holds no run to show; `stopwav latency ENGINE --save {folder}` makes one")
    if html is not None or not json:
        _write(followed, folder, html or folder / "history.html")
    if json:
        _print_json(runs, folder, skipped)
    else:
        from rich.console import Console

        from stopwav.report.history import PastRun, print_history

        print_history(
            [PastRun(record, _points(results)) for record, results in followed], Console(markup=False, highlight=False)
        )


def _points(results: Sequence[Result]) -> list[Result]:
    """The results that are followed over time: cells and engines, and not the laws fitted to them."""
    return [result for result in results if result.params.get("kind", "cell") in ("cell", "engine", "length")]


def _read(folder: Path) -> tuple[list[Found], list[tuple[Path, str]]]:
    """The runs in the folder by time, and what else lies there under such a name, with the reason why it is no run."""
    from stopwav.cli.output import progress_bar, results_of
    from stopwav.record import Record
    from stopwav.report.history import started_s

    if not folder.is_dir():
        raise StopwavError(f"{folder}: no such folder; name one that holds run files, such as stopwav-runs")
    found: list[Found] = []
    skipped: list[tuple[Path, str]] = []
    paths = sorted(folder.glob("*.jsonl"))
    with progress_bar() as progress:
        for index, path in enumerate(paths):
            try:
                record = Record.read(path)
                started_s(record)
                found.append((record, results_of(record)))
            except StopwavError as error:
                skipped.append((path, str(error)))
            progress("reading runs", index + 1, len(paths))
    return sorted(found, key=lambda one: (started_s(one[0]), one[0].path.name)), skipped


def _write(runs: Sequence[Found], folder: Path, page: Path) -> None:
    """Write the page, and before it those pages of its runs that are not there yet."""
    import os
    import sys
    from urllib.parse import quote

    from stopwav import __version__
    from stopwav.cli.output import page_of, write_file, write_page_or_warn
    from stopwav.report.history import PastRun
    from stopwav.report.history_page import history_page

    past = []
    for record, results in runs:
        target = page_of(record)
        there = target.is_file() or write_page_or_warn([(record, results)], target)
        address = quote(os.path.relpath(target.resolve(), page.resolve().parent))
        # A name such as `javascript:x` is a file here, and would be a command without the dot.
        past.append(PastRun(record, _points(results), f"./{address}" if there else None))
    write_file(page, history_page(past, folder, __version__), [record.path for record, _ in runs])
    print(f"page: {page}", file=sys.stderr)


def _print_json(runs: Sequence[Found], folder: Path, skipped: Sequence[tuple[Path, str]]) -> None:
    import json

    from stopwav import __version__
    from stopwav.cli.output import page_of, run_to_json
    from stopwav.report.provenance import fingerprint

    rows = [
        {
            **run_to_json(record, results),
            "started": record.header.started,
            "machine": fingerprint(record.header),
            "page": str(page_of(record)) if page_of(record).is_file() else None,
        }
        for record, results in runs
    ]
    passed_over = [{"where": str(path), "message": message} for path, message in skipped]
    print(json.dumps({"stopwav": __version__, "folder": str(folder), "runs": rows, "skipped": passed_over}))
