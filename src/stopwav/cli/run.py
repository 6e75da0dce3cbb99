"""`stopwav run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import QUICK, EveryMetric, Json, NoHtml, Quick, Scientific
from stopwav.report.document import Detail

if TYPE_CHECKING:
    from stopwav.record import Record
    from stopwav.studies.plan.plan_file import PlannedRun

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of every study that takes it; repeatable."),
]


def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="YAML file of studies; `stopwav init` writes one to start from. Or SpeechBrain's profile.yaml.",
        ),
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the file and list its runs with an estimate of the time; run nothing."),
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Override the rounds of every study.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Override the budget of every study, such as 5min.")
    ] = None,
    quick: Quick = False,
    seed: Annotated[int | None, typer.Option(help="Override the seed of every study.")] = None,
    save: Annotated[Path | None, typer.Option(help="Override the folder for the run files.")] = None,
    on: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Measure every study on a cluster: ray, ray:HOST:PORT, slurm.")
    ] = None,
    place: Annotated[
        str | None, typer.Option(metavar="RESOURCES", help="With --on, what the machine has, such as gpu=H200.")
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="With --on, take a part of a machine.")] = False,
    settings: Set = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the unfinished runs of this file, and keep the finished ones.")
    ] = False,
    every_metric: EveryMetric = False,
    scientific: Scientific = False,
    no_html: NoHtml = False,
    json: Json = False,
) -> None:
    """Run one or several studies that a YAML file describes."""
    import sys

    from stopwav.cli.output import STOPPED_CODES, end_with, print_json
    from stopwav.studies.plan.plan_file import file_runs

    where = {"on": on, "place": place, "shared": shared or None}
    planned = file_runs(file, _overrides(rounds, QUICK if quick else budget, seed, save, settings or [], where))
    if check:
        end_with(_check(file, planned, as_json=json))
        return
    printing = _Printing(tables=not json, detail=Detail(every_metric, scientific), page=not (no_html or json))
    codes, rows = [], []
    for number, item in enumerate(planned, start=1):
        print(f"stopwav: {number}/{len(planned)} {item.study} ({item.where})", file=sys.stderr)
        if item.note:
            print(f"stopwav: {item.note}", file=sys.stderr)
        code, row = _run(item, resume, printing)
        codes.append(code)
        rows.append(row)
        if code in STOPPED_CODES:  # the runs that would follow are not begun
            break
    if json:
        print_json({"runs": rows})
    end_with(_exit_code(codes))


def _overrides(
    rounds: int | None,
    budget: str | None,
    seed: int | None,
    save: Path | None,
    settings: list[str],
    where: dict[str, Any],
) -> dict[str, Any]:
    from stopwav.studies.plan.plan_file import parse_override
    from stopwav.studies.plan.yaml_file import as_node

    overrides: dict[str, Any] = dict(parse_override(text) for text in settings)
    given = {"rounds": rounds, "budget": budget, "seed": seed, "save": save, **where}
    for key, value in given.items():
        if value is not None:
            overrides[key] = as_node(value, f"--{key}")
    return overrides


@dataclass(frozen=True)
class _Printing:
    """How results are to be shown."""

    tables: bool
    detail: Detail
    page: bool


def _run(planned: PlannedRun, resume: bool, printing: _Printing) -> tuple[int, dict[str, Any]]:
    """Run one study, print its tables, write its page, and return its exit code and JSON."""
    import sys

    from stopwav.cli.live import Stopped, follow
    from stopwav.cli.output import EXIT_UNUSABLE, report_resumed
    from stopwav.errors import StopwavError
    from stopwav.studies.plan.run import run_planned
    from stopwav.studies.study import find_study

    try:
        finished = follow(lambda display: run_planned(planned, resume=resume, progress=display))
    except Stopped as stopped:
        return stopped.code, _print(stopped.record, printing)[1]
    error = finished.error
    if finished.record is not None:
        try:
            report_resumed(finished.record)
            find_study(planned.study).verb.after(finished.record, planned.spec.model_dump())
            return _print(finished.record, printing)
        except StopwavError as unreadable:
            error = str(unreadable)
    print(f"stopwav: {error}", file=sys.stderr)
    run_file = None if finished.record is None else str(finished.record.path)
    return EXIT_UNUSABLE, {"study": planned.study, "run": run_file, "results": [], "error": error}


def _print(record: Record, printing: _Printing) -> tuple[int, dict[str, Any]]:
    from stopwav.cli.output import exit_code, page_of, print_runs, read_results, run_to_json, write_page_or_warn

    run = read_results(record)
    if printing.tables:
        print_runs([run], as_json=False, detail=printing.detail)
        print()
    if printing.page:
        write_page_or_warn([run], page_of(record))
    return exit_code([run]), run_to_json(run)


def _exit_code(codes: list[int]) -> int:
    """0 when all was measured, 1 when a part was not, 2 when nothing was; that of the signal which stopped it."""
    from stopwav.cli.output import EXIT_PARTLY, EXIT_UNUSABLE, STOPPED_CODES

    if codes[-1] in STOPPED_CODES:
        return codes[-1]

    if all(code == EXIT_UNUSABLE for code in codes):
        return EXIT_UNUSABLE
    return EXIT_PARTLY if any(codes) else 0


@dataclass(frozen=True)
class _Checked:
    """A planned run with how long it may take, and what would stop it at once."""

    planned: PlannedRun
    seconds: float | None
    basis: tuple[str, ...]
    problems: tuple[str, ...]


def _checked(planned: PlannedRun) -> _Checked:
    from stopwav.errors import StopwavError
    from stopwav.studies.forecast import forecast
    from stopwav.studies.study import find_study

    study, spec = find_study(planned.study), planned.spec
    places = planned.places
    problems = [f"{places.get(setting, planned.where)}: {reason}" for setting, reason in study.problems(spec)]
    try:
        estimate = forecast(study, spec)
    except StopwavError as error:
        return _Checked(planned, None, (), (*problems, f"{planned.where}: {error}"))
    return _Checked(planned, estimate.seconds, estimate.basis, tuple(problems))


def _check(file: Path, planned: list[PlannedRun], *, as_json: bool) -> int:
    """Print what would be run and how long it may take; the exit code says whether it can be."""
    from stopwav.cli.output import EXIT_UNUSABLE, print_json
    from stopwav.cli.study_verb import about

    checked = [_checked(item) for item in planned]
    if as_json:
        cells = [_check_to_json(item) for item in checked]
        print_json({"file": str(file), "cells": cells, "seconds": _total(checked)})
    else:
        for number, item in enumerate(checked, start=1):
            _print_check(number, item)
        print(f"{len(checked)} run{'s' if len(checked) > 1 else ''}, {about(_total(checked))} in all; nothing was run")
    return EXIT_UNUSABLE if any(item.problems for item in checked) else 0


def _check_to_json(item: _Checked) -> dict[str, Any]:
    options = type(item.planned.spec).options()
    return {
        "study": item.planned.study,
        "where": item.planned.where,
        "settings": item.planned.spec.model_dump(mode="json", include=set(options)),
        "estimate": {"seconds": item.seconds, "basis": list(item.basis)},
        "problems": list(item.problems),
    }


def _print_check(number: int, item: _Checked) -> None:
    from stopwav.cli.study_verb import about
    from stopwav.report.text import plain
    from stopwav.studies.spec import flag_of

    print(f"{number}. {item.planned.study}, {about(item.seconds)}  ({plain(item.planned.where)})")
    for name, value in item.planned.spec.model_dump(mode="json", exclude_defaults=True).items():
        for single in value if isinstance(value, list) and name == "engines" else [value]:
            print(f"     {flag_of(name)}: {plain(str(single))}")
    for line in item.basis:
        print(f"   based on {plain(line)}")
    for line in item.problems:
        print(f"   PROBLEM: {plain(line)}")


def _total(checked: list[_Checked]) -> float | None:
    known = [item.seconds for item in checked if item.seconds is not None]
    return sum(known) if len(known) == len(checked) else None
