"""`stopwav diff`."""

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
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="Run file to compare with, such as the baseline. A folder, or `latest`, stands for its newest "
            "complete run.",
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Run file to compare, or a folder, or `latest`.")],
    threshold: Threshold = "1%",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what changed from one run to another, and whether it is more than noise."""
    from stopwav.cli.output import print_json, print_text, report_choice, show_document
    from stopwav.studies.diff.diff import diff as compare
    from stopwav.studies.diff.document import diff_document
    from stopwav.studies.run_choice import choose_pair

    a, b = map(report_choice, choose_pair(a, b))
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
