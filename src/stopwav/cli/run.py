"""`stopwav run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import EveryMetric, Json, NoHtml, Quick, Scientific
from stopwav.report.document import Detail

if TYPE_CHECKING:
    from stopwav.record import Record
    from stopwav.studies.forecast import Forecast
    from stopwav.studies.plan.plan_file import Cell

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of every study that takes it; repeatable."),
]


def run(
    file: Annotated[Path, typer.Argument(help="YAML file of studies; `stopwav init` writes one to start from.")],
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the file and list its runs with an estimate of the time; run nothing."),
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Override the rounds of every study.")] = None,
    quick: Quick = False,
    seed: Annotated[int | None, typer.Option(help="Override the seed of every study.")] = None,
    save: Annotated[Path | None, typer.Option(help="Override the folder for the run files.")] = None,
    settings: Set = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with unfinished runs of this file, and keep the finished ones.")
    ] = False,
    every_metric: EveryMetric = False,
    scientific: Scientific = False,
    no_html: NoHtml = False,
    json: Json = False,
) -> None:
    """Run one or several studies that a YAML file describes."""
    import sys

    from stopwav.cli.output import end_with
    from stopwav.studies.plan.plan_file import cells_of
    from stopwav.studies.plan.yaml_file import read_yaml

    cells = cells_of(read_yaml(file), _overrides(1 if quick else rounds, seed, save, settings or []))
    if check:
        end_with(_check(file, cells, as_json=json))
        return
    printing = _Printing(tables=not json, detail=Detail(every_metric, scientific), page=not no_html)
    codes, rows = [], []
    for number, cell in enumerate(cells, start=1):
        print(f"stopwav: {number}/{len(cells)} {cell.study} ({cell.where})", file=sys.stderr)
        code, row = _run(cell, resume, printing)
        codes.append(code)
        rows.append(row)
    if json:
        _print_json({"runs": rows})
    end_with(_exit_code(codes))


def _overrides(rounds: int | None, seed: int | None, save: Path | None, settings: list[str]) -> dict[str, Any]:
    from stopwav.studies.plan.plan_file import parse_override
    from stopwav.studies.plan.yaml_file import as_node

    found = dict(parse_override(text) for text in settings)
    for key, value in (("rounds", rounds), ("seed", seed), ("save", save)):
        if value is not None:
            found[key] = as_node(value, f"--{key}")
    return found


@dataclass(frozen=True)
class _Printing:
    """How results are to be shown."""

    tables: bool
    detail: Detail
    page: bool


def _run(cell: Cell, resume: bool, printing: _Printing) -> tuple[int, dict[str, Any]]:
    """How one run went, as an exit code and as JSON; its tables are printed and its page is written."""
    import sys

    from stopwav.cli.output import EXIT_UNUSABLE, progress_bar, tell_resumed
    from stopwav.errors import StopwavError
    from stopwav.studies.plan.run import run_cell

    with progress_bar(resumable=True) as progress:
        ran = run_cell(cell, resume=resume, progress=progress)
    error = ran.error
    if ran.record is not None:
        try:
            tell_resumed(ran.record)
            return _print(ran.record, printing)
        except StopwavError as unreadable:
            error = str(unreadable)
    print(f"stopwav: {error}", file=sys.stderr)
    run_file = None if ran.record is None else str(ran.record.path)
    return EXIT_UNUSABLE, {"study": cell.study, "run": run_file, "results": [], "error": error}


def _print(record: Record, printing: _Printing) -> tuple[int, dict[str, Any]]:
    from stopwav.cli.output import exit_code, page_of, print_runs, results_of, run_to_json, write_page_or_warn

    found = results_of(record)
    shown = [(record, found)]
    if printing.tables:
        print_runs(shown, as_json=False, detail=printing.detail)
        print()
    if printing.page:
        write_page_or_warn(shown, page_of(record))
    return exit_code(found), run_to_json(record, found)


def _exit_code(codes: list[int]) -> int:
    """0 when all was measured, 1 when a part was not, 2 when nothing was."""
    from stopwav.cli.output import EXIT_PARTLY, EXIT_UNUSABLE

    if all(code == EXIT_UNUSABLE for code in codes):
        return EXIT_UNUSABLE
    return EXIT_PARTLY if any(codes) else 0


def _check(file: Path, cells: list[Cell], *, as_json: bool) -> int:
    """Print what would be run and how long it may take; the exit code says whether it can be."""
    from stopwav.cli.forecast_line import about
    from stopwav.cli.output import EXIT_UNUSABLE
    from stopwav.studies.forecast import forecast

    forecasts = [forecast(cell) for cell in cells]
    if as_json:
        rows = [_check_to_json(cell, one) for cell, one in zip(cells, forecasts, strict=True)]
        _print_json({"file": str(file), "cells": rows, "seconds": _total(forecasts)})
    else:
        for number, (cell, one) in enumerate(zip(cells, forecasts, strict=True), start=1):
            _print_check(number, cell, one)
        print(f"{len(cells)} run{'s' if len(cells) > 1 else ''}, {about(_total(forecasts))} in all; nothing was run")
    return EXIT_UNUSABLE if any(one.problems for one in forecasts) else 0


def _check_to_json(cell: Cell, one: Forecast) -> dict[str, Any]:
    settings = cell.settings.model_dump(mode="json")
    estimate = {"seconds": one.seconds, "basis": list(one.basis)}
    return {
        "study": cell.study,
        "where": cell.where,
        "settings": settings,
        "estimate": estimate,
        "problems": list(one.problems),
    }


def _print_check(number: int, cell: Cell, one: Forecast) -> None:
    from stopwav.cli.forecast_line import about
    from stopwav.report.plain import plain
    from stopwav.studies.study import flag_of

    print(f"{number}. {cell.study}, {about(one.seconds)}  ({plain(cell.where)})")
    for name, value in cell.settings.model_dump(mode="json", exclude_defaults=True).items():
        for item in value if isinstance(value, list) and name == "engines" else [value]:
            print(f"     {flag_of(name)}: {plain(str(item))}")
    for line in one.basis:
        print(f"   based on {plain(line)}")
    for line in one.problems:
        print(f"   PROBLEM: {plain(line)}")


def _total(forecasts: list[Forecast]) -> float | None:
    known = [one.seconds for one in forecasts if one.seconds is not None]
    return sum(known) if len(known) == len(forecasts) else None


def _print_json(fields: dict[str, Any]) -> None:
    import json

    from stopwav import __version__

    print(json.dumps({"stopwav": __version__, **fields}))
