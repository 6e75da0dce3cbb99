"""A run in a notebook: its tables and charts as the output of a cell, a data frame, and a chart by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.study import StudyRun


def run_html(record: Record) -> str:
    """Return the findings, tables and charts of a run's page."""
    from stopwav.report.notebook import notebook_html
    from stopwav.studies.side_by_side import page_section

    return notebook_html(page_section(StudyRun(record)))


def run_frame(record: Record, params: Sequence[str], library: str | None) -> Any:
    """Return the metrics of a run as a data frame."""
    from stopwav.report.data_frame import data_frame

    run = StudyRun(record)
    return data_frame((record, run.results, run.study.failure_codes + run.study.skip_codes), params, library)


def run_chart(record: Record, name: str) -> Any:
    """Return a chart of a run as an object of Altair."""
    from stopwav.report.chart import altair_chart

    charts = StudyRun(record).charts
    if name not in charts:
        raise StopwavError(f"{record.path}: no chart {name!r}: there are {', '.join(charts) or 'none'}")
    return altair_chart(charts[name])
