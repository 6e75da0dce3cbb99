"""`stopwav diff` and `stopwav gate`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

Threshold = Annotated[
    str,
    typer.Option(
        metavar="CHANGE", help="The change that does not matter, as `1%` or `0.01`; for WER it is relative too."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Compare runs that should not be compared; the output says why not.")
]


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="Run file to compare with, such as the baseline.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Run file to compare.")],
    threshold: Threshold = "1%",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what changed from one run to another, and whether it is more than noise."""
    from stopwav.cli.output import print_json, print_text, show_document
    from stopwav.studies.diff.diff import diff as compare
    from stopwav.studies.diff.document import diff_document

    compared = compare(a, b, threshold=parse_threshold(threshold), force=force)
    if json:
        print_json(compared.to_json())
    elif markdown:
        from stopwav.report.markdown import render_markdown

        print_text(render_markdown(diff_document(compared)))
    else:
        show_document(diff_document(compared))


def parse_threshold(text: str) -> float:
    """Return the relative change that `1%` or `0.01` names."""
    number = text.strip()
    percent = number.endswith("%")
    try:
        value = float(number.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    # Nobody means 500 % by 5.
    if not (math.isfinite(value) and value >= 0 and (percent or value < 1)):
        raise StopwavError(f"--threshold {text!r}: give a change of 0 or more as 1% or 0.01")
    return value


EXIT_VIOLATED = 3  # a condition is violated; 1 and 2 say that something could not be measured or compared


Runs = Annotated[
    list[Path],
    typer.Argument(metavar="BASELINE RUN", help="Two run files; with --calibrate, three or more of the same thing."),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Fail when the run is `slower`, `bigger` or `worse-wer`, or something is `missing`; "
        "give it once for each. Default: any of them.",
    ),
]
Thresholds = Annotated[
    Path | None,
    typer.Option(help="File with a threshold per metric, from --calibrate; --threshold applies to the others."),
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Print thresholds derived from repeated runs of the same thing, as JSON.")
]
AllowIncomplete = Annotated[
    bool,
    typer.Option("--allow-incomplete", help="Judge runs that stopped early by what they hold; else that is an error."),
]
Markdown = Annotated[
    Path | None, typer.Option(help="File to write the outcome to, as Markdown for a pull-request comment.")
]


def gate(
    runs: Runs,
    fail_on: FailOn = None,
    threshold: Threshold = "1%",
    thresholds: Thresholds = None,
    calibrate: Calibrate = False,
    markdown: Markdown = None,
    force: Force = False,
    allow_incomplete: AllowIncomplete = False,
    json: Json = False,
) -> None:
    """Is a run as good as its baseline? The exit code is 3 if a condition is violated by more than noise."""
    from stopwav.cli.output import check_target, print_json, show_document, write_file
    from stopwav.studies.diff import gate as gates
    from stopwav.studies.diff.document import gate_document

    check_target(markdown)
    if calibrate:
        print_json(gates.calibrate(runs, force=force, allow_incomplete=allow_incomplete).to_json(), indent=2)
        return
    if len(runs) != 2:
        raise StopwavError(
            f"gate takes a baseline and a run, got run files: {len(runs)}; --calibrate takes three or more"
        )
    judged = gates.gate(
        *runs,
        fail_on=fail_on or tuple(gates.CONDITIONS),
        threshold=parse_threshold(threshold),
        thresholds=None if thresholds is None else gates.read_thresholds(thresholds),
        force=force,
        allow_incomplete=allow_incomplete,
    )
    if markdown is not None:
        from stopwav.report.markdown import render_markdown

        write_file(markdown, render_markdown(gate_document(judged)), runs)
    if json:
        print_json(judged.to_json())
    else:
        show_document(gate_document(judged))
    if not judged.passed:
        raise typer.Exit(EXIT_VIOLATED)
