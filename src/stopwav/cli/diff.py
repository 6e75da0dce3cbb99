"""`stopwav diff`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import EveryMetric, Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.studies.diff.diff import Diffs

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
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Run files: the one to compare with, such as the baseline, then one or more to compare. A folder, or "
            "`latest`, stands for its newest complete run.",
        ),
    ],
    threshold: Threshold = "1%",
    html: Annotated[Path | None, typer.Option(help="Write a page with charts in place of the tables.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")] = False,
    every_metric: EveryMetric = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what changed from a run to others, and whether it is more than noise."""
    from stopwav.cli.output import check_one_output, check_target, print_json, print_text, report_choice, show_document
    from stopwav.studies.diff.diff import diff_runs
    from stopwav.studies.diff.document import diff_document
    from stopwav.studies.run_choice import choose_runs

    check_one_output({"--json": json, "--markdown": markdown})
    check_target(html)
    if len(runs) < 2:
        raise StopwavError(f"diff takes two runs or more, the one to compare with first; got {len(runs)}")
    paths = list(map(report_choice, choose_runs(runs)))
    compared = diff_runs(paths, threshold=parse_threshold(threshold), force=force)
    if html is not None:
        _write_page(compared, html, paths)
    if json:
        print_json(compared.to_json())
    elif markdown:
        from stopwav.report.markdown import render_markdown

        print_text(render_markdown(diff_document(compared)))
    elif html is None:
        show_document(diff_document(compared), every_metric=every_metric)


def _write_page(compared: Diffs, path: Path, runs: list[Path]) -> None:
    """Write the comparison as a page, which is made as that of a run."""
    from stopwav.cli.output import write_file
    from stopwav.report.page import PageSection, render_page
    from stopwav.studies.diff.charts import diff_charts
    from stopwav.studies.diff.document import diff_document
    from stopwav.studies.study import find_study

    define = find_study(compared.diffs[0].study).definitions.explain
    section = PageSection(diff_document(compared), diff_charts(compared), define)
    write_file(path, render_page([section]), runs)
    print(f"page: {path}", file=sys.stderr)


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
