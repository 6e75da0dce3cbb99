"""`stopwav history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stopwav.report.history import PastRun
    from stopwav.report.level_shift import LevelShifts
    from stopwav.studies.study import StudyRun


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of run files; `latest` is stopwav-runs.")],
    html: Annotated[
        Path | None, typer.Option(help="File to write the page to; default: history.html in the folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Show how every metric changed over the runs in a folder."""
    import sys

    from stopwav.cli.output import check_target
    from stopwav.report.level_shift import level_shifts

    check_target(html)
    folder = _folder(folder)
    runs, skipped = _read(folder, extras=json)
    for _, message in skipped:
        print(f"stopwav: skipped {message}", file=sys.stderr)
    followed = [run for run in runs if run.study.followed is not None]
    for run in runs:
        if run.study.followed is None:
            print(
                f"stopwav: left out {run.record.path}: history does not support {run.study.name} runs", file=sys.stderr
            )
    if not (runs if json and html is None else followed):
        raise StopwavError(f"{folder}: has no run to show; `stopwav latency ENGINE --save {folder}` makes one")
    past = [past_run(run) for run in followed]
    found = level_shifts(past)
    if html is not None or not json:
        _write(followed, folder, html or folder / "history.html", found)
    if json:
        _print_json(runs, folder, skipped, found)
    else:
        from stopwav.cli.output import show_document
        from stopwav.report.history_document import history_document

        show_document(history_document(past, folder.name, found))


def past_run(run: StudyRun, href: str = "") -> PastRun:
    """Return a run as the history takes it, with the address of its page."""
    from stopwav.cli.output import understood
    from stopwav.report.history import KeyMetric, PastRun

    definitions = run.study.definitions
    key = [KeyMetric(name, known.headline, known.scale, known.decimals) for name, known in definitions.headlines()]
    comparable = run.study.comparable
    settings = {} if comparable is None else understood(run.record, lambda: comparable.settings(run.record))
    return PastRun(run.record, run.followed, key, definitions.explain, run.study.series, href, settings)


def _folder(name: Path) -> Path:
    """The folder of runs that a name stands for: `latest` for the one that runs are saved in."""
    from stopwav.studies.run_choice import LATEST
    from stopwav.studies.spec import DEFAULT_FOLDER

    return DEFAULT_FOLDER if str(name) == LATEST and not name.exists() else name


def _read(folder: Path, *, extras: bool) -> tuple[list[StudyRun], list[tuple[Path, str]]]:
    """The runs in the folder by time, and the other files there with the name of a run, each with what is wrong."""
    from stopwav.cli.output import progress_bar, read_results
    from stopwav.record import Record
    from stopwav.report.history import started_s

    if not folder.is_dir():
        raise StopwavError(f"{folder}: no such folder; name one that holds run files, such as stopwav-runs")
    runs: list[StudyRun] = []
    skipped: list[tuple[Path, str]] = []
    paths = sorted(folder.glob("*.jsonl"))
    with progress_bar() as progress:
        for index, path in enumerate(paths):
            try:
                record = Record.read(path)
                started_s(record)
                run = read_results(record)
                if extras:
                    _ = run.extras  # computed here, so that a run without them is left out alone
                runs.append(run)
            except StopwavError as error:
                skipped.append((path, str(error)))
            progress("reading runs", index + 1, len(paths))
    return sorted(runs, key=lambda run: (started_s(run.record), run.record.path.name)), skipped


def _write(runs: Sequence[StudyRun], folder: Path, page: Path, found: LevelShifts) -> None:
    """Write the page, and before it those pages of its runs that are not there yet."""
    import os
    import sys
    from urllib.parse import quote

    from stopwav.cli.output import page_of, write_file, write_page_or_warn
    from stopwav.report.history_chart import history_charts
    from stopwav.report.history_document import history_document
    from stopwav.report.page import PageSection, render_page

    past = []
    for run in runs:
        target = page_of(run.record)
        there = target.is_file() or write_page_or_warn([run], target)
        address = quote(os.path.relpath(target.resolve(), page.resolve().parent))
        # A name such as `javascript:x` is a file here, and would be a command without the dot.
        past.append(past_run(run, f"./{address}" if there else ""))
    document = history_document(past, folder.resolve().name or str(folder), found)
    html = render_page([PageSection(document, history_charts(past, found), past[0].define)])
    write_file(page, html, [run.record.path for run in runs])
    print(f"page: {page}", file=sys.stderr)


def _print_json(
    runs: Sequence[StudyRun], folder: Path, skipped: Sequence[tuple[Path, str]], found: LevelShifts
) -> None:
    from stopwav.cli.output import page_of, print_json, run_to_json
    from stopwav.report.provenance import fingerprint

    rows = [
        {
            **run_to_json(run),
            "started": run.record.header.started,
            "machine": fingerprint(run.record.header),
            "page": str(page_of(run.record)) if page_of(run.record).is_file() else None,
        }
        for run in runs
    ]
    left_out = [{"where": str(path), "message": message} for path, message in skipped]
    print_json({"folder": str(folder), "runs": rows, "skipped": left_out, "change_points": found.to_json()})
