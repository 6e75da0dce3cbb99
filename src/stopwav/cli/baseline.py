"""`stopwav baseline`: save, list and compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.diff import Force, Threshold, parse_threshold
from stopwav.cli.gate import AllowIncomplete, FailOn, Markdown, Thresholds
from stopwav.cli.options import Json, verb_group
from stopwav.studies.diff.baseline import DEFAULT_NAME, DEFAULT_STORE, compare_baseline, list_baselines, save_baselines
from stopwav.studies.diff.gate import CONDITIONS, read_thresholds
from stopwav.studies.run_choice import choose_run

baseline = verb_group(
    "Keep runs to compare with, by machine, study and name, in a folder to commit or to cache. Each verb takes --json."
)

Name = Annotated[str, typer.Option(help="Name of the baseline, such as a branch.")]
Folder = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the baselines.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Run file; a folder, or `latest`, stands for its newest complete run.")
]


@baseline.command()
def save(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Run files; a folder, or `latest`, stands for its newest complete run."),
    ],
    name: Name = DEFAULT_NAME,
    folder: Folder = DEFAULT_STORE,
    allow_incomplete: AllowIncomplete = False,
    json: Json = False,
) -> None:
    """Keep runs as the baselines of their machine and study; one of that name is replaced."""
    from stopwav.cli.output import print_json, report_choice

    paths = [report_choice(choose_run(run)) for run in runs]
    saved = save_baselines(paths, name=name, folder=folder, allow_incomplete=allow_incomplete)
    if json:
        print_json({"folder": str(folder), "baselines": [baseline.to_json() for baseline in saved]})
    for baseline in [] if json else saved:
        print(f"{baseline.study} baseline {baseline.name} of machine {baseline.machine}: {baseline.path}")


@baseline.command("list")
def list_(folder: Folder = DEFAULT_STORE, json: Json = False) -> None:
    """List the baselines by machine, study and name."""
    from stopwav.cli.output import print_json, show_document
    from stopwav.measure.machine import describe
    from stopwav.studies.diff.gate_document import baselines_document

    baselines, here = list_baselines(folder), describe().fingerprint
    if json:
        print_json(
            {"folder": str(folder), "machine": here, "baselines": [baseline.to_json() for baseline in baselines]}
        )
    else:
        show_document(baselines_document(baselines, str(folder), here))


@baseline.command()
def compare(
    run: RunName,
    name: Name = DEFAULT_NAME,
    folder: Folder = DEFAULT_STORE,
    fail_on: FailOn = None,
    threshold: Threshold = "1%",
    thresholds: Thresholds = None,
    markdown: Markdown = None,
    force: Force = False,
    allow_incomplete: AllowIncomplete = False,
    json: Json = False,
) -> None:
    """Hold a run against the baseline of its machine: exit code 3 where it is worse, 5 where there is no baseline."""
    from stopwav.cli.output import (
        EXIT_NO_BASELINE,
        EXIT_VIOLATED,
        check_target,
        end_with,
        print_json,
        report_choice,
        show_document,
        write_file,
    )
    from stopwav.studies.diff.gate_document import baseline_document

    check_target(markdown)
    path = report_choice(choose_run(run))
    compared = compare_baseline(
        path,
        name=name,
        folder=folder,
        fail_on=fail_on or tuple(CONDITIONS),
        threshold=parse_threshold(threshold),
        thresholds=None if thresholds is None else read_thresholds(thresholds),
        force=force,
        allow_incomplete=allow_incomplete,
    )
    document = baseline_document(compared)
    if markdown is not None:
        from stopwav.report.markdown import render_markdown

        write_file(markdown, render_markdown(document), [path])
    if json:
        print_json(compared.to_json())
    elif compared.gate is None:
        print(f"stopwav: {compared.reason}", file=sys.stderr)
    else:
        show_document(document)
    end_with({"passed": 0, "failed": EXIT_VIOLATED, "no-baseline": EXIT_NO_BASELINE}[compared.outcome])
