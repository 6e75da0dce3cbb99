"""Runs as people see them: printed, as Markdown and as a page; with other results than their own where a test asks."""

import io
from collections.abc import Sequence

from rich.console import Console

from stopwav.record import Record, Result
from stopwav.report.document import Detail
from stopwav.report.markdown import render_markdown
from stopwav.report.page import render_page
from stopwav.report.terminal import print_document
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun


def study_run(record: Record, results: Sequence[Result] | None = None) -> StudyRun:
    """A run, with these results in place of its own."""
    run = StudyRun(record)
    if results is not None:
        run.results = list(results)
    return run


def printed(run: StudyRun, *, width: int = 80, every_metric: bool = False) -> str:
    """What a terminal shows."""
    out = io.StringIO()
    document = run.document(Detail(every_metric))
    print_document(document, Console(file=out, width=width), every_metric=every_metric)
    return out.getvalue()


def markdown(run: StudyRun, *, every_metric: bool = False) -> str:
    """The run as Markdown."""
    return render_markdown(run.document(Detail(every_metric)), every_metric=every_metric)


def page(*runs: StudyRun) -> str:
    """The page of runs, without a comparison on top."""
    return render_page([page_section(run) for run in runs])
