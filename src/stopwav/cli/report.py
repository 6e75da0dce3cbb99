"""`stopwav report`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import EveryMetric, Json, Labels, PrintTexts, Scientific, Unfold
from stopwav.errors import StopwavError
from stopwav.report.document import Detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stopwav.report.tracker import TrackedRun, TrackerPlace
    from stopwav.studies.study import StudyRun


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run files; a folder, or `latest`, stands for its newest complete run."),
    ],
    html: Annotated[
        Path | None,
        typer.Option(help="Write one page with a section per run; of several runs, with a comparison on top."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")] = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Print CSV instead of tables, a row per engine and metric; with --print-texts, per engine and text.",
        ),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write the streams as a Chrome trace, which Perfetto opens.")
    ] = None,
    charts: Annotated[
        Path | None, typer.Option(help="Write the charts as SVG and PNG into this folder; --markdown shows them.")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER:PLACE",
            help="Send metrics with intervals, settings, charts and the page to tensorboard:FOLDER or mlflow:URI. "
            "May be repeated.",
        ),
    ] = None,
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the page in a browser; without --html it is written next to the run file."),
    ] = False,
    every_metric: EveryMetric = False,
    scientific: Scientific = False,
    unfold: Unfold = False,
    labels: Labels = None,
    print_texts: PrintTexts = False,
    json: Json = False,
) -> None:
    """Show the results of runs, computed again from their files."""
    from stopwav.cli import output
    from stopwav.record import Record
    from stopwav.studies.run_choice import choose_run

    detail = Detail(every_metric, scientific, unfold, labels, print_texts)
    output.check_one_output({"--json": json, "--markdown": markdown, "--csv": csv})
    runs = [output.report_choice(choose_run(path)) for path in runs]
    page = _page(html, trace, runs, open_page)
    for target in (page, trace, None if charts is None else charts / "chart.svg"):
        output.check_target(target)
    targets = _targets(to or ())
    shown = [output.read_results(Record.read(path)) for path in runs]
    if trace is not None:
        _write_trace(shown, trace)
    if page is not None:
        output.write_page(shown, page)
    _send(shown, targets)
    images = [] if charts is None else _write_charts(shown, charts)
    if csv:
        output.print_text(_csv_texts(shown) if print_texts else _csv(shown))
    elif markdown:
        output.print_text(_markdown(shown, images, detail))
    elif json or not (page or trace or charts or targets):  # what was asked for is written already
        output.print_runs(shown, as_json=json, detail=detail)
    if page is not None and open_page:
        _open(page)
    output.end_with(output.exit_code(shown))


def _page(html: Path | None, trace: Path | None, runs: Sequence[Path], open_page: bool) -> Path | None:
    """Where the page goes, where one is asked for."""
    if html is not None and trace is not None and os.path.realpath(html) == os.path.realpath(trace):
        raise StopwavError(f"--html {html} and --trace {trace}: the same file; name two")
    if html is not None or not open_page:
        return html
    if len(runs) > 1:
        raise StopwavError(f"--open with {len(runs)} runs: say where their page goes with --html FILE")
    return runs[0].with_suffix(".html")


def _targets(texts: Sequence[str]) -> list[TrackerPlace]:
    """The trackers that were named; their charts are imported only where there are any."""
    if not texts:
        return []
    from stopwav.report.tracker import parse_target

    return [parse_target(text) for text in texts]


def _send(runs: Sequence[StudyRun], targets: Sequence[TrackerPlace]) -> None:
    import sys

    from stopwav.cli.output import understood

    tracked = [understood(run.record, partial(_tracked, run)) for run in runs] if targets else []
    for target in targets:
        print(f"{target.tracker}: {target.send(tracked)}", file=sys.stderr)


def _tracked(run: StudyRun) -> TrackedRun:
    """The run as trackers take it."""
    from stopwav.report.markdown import render_markdown
    from stopwav.report.page import render_page
    from stopwav.report.tracker import TrackedRun
    from stopwav.studies.side_by_side import page_section

    markdown = render_markdown(run.document(Detail()))
    return TrackedRun(run.record, run.results, run.charts, markdown, _csv([run]), render_page([page_section(run)]))


def _write_trace(runs: Sequence[StudyRun], path: Path) -> None:
    import json
    import sys

    from stopwav.cli.output import understood, write_file

    for run in runs:
        if run.study.trace is None or run.study is not runs[0].study:
            raise StopwavError(f"{run.record.path}: a run of {run.study.name!r} has no streams to trace")
    assert runs[0].study.trace is not None
    records = [run.record for run in runs]
    events = understood(records[0], partial(runs[0].study.trace, records))
    write_file(path, json.dumps(events), [record.path for record in records])
    print(f"trace: {path} (open it at ui.perfetto.dev or chrome://tracing)", file=sys.stderr)


def _write_charts(runs: Sequence[StudyRun], folder: Path) -> list[tuple[str, Path]]:
    """Write the charts and return the title of each with its SVG file."""
    import sys

    from stopwav.cli.output import understood, write_file
    from stopwav.report.chart import chart_png, chart_svg

    written = []
    for run in runs:
        for name, chart in run.charts.items():
            path = folder / f"{run.record.path.stem}-{name}.svg"
            write_file(path, understood(run.record, partial(chart_svg, chart.spec)))
            write_file(path.with_suffix(".png"), understood(run.record, partial(chart_png, chart.spec)))
            written.append((chart.title, path))
    print(f"charts: {len(written)} in {folder}", file=sys.stderr)
    return written


def _csv(runs: Sequence[StudyRun]) -> str:
    from stopwav.cli.output import understood
    from stopwav.report.csv_table import csv_table

    rows = [(run.record, run.results, run.study.failure_codes + run.study.skip_codes) for run in runs]
    return understood(runs[0].record, partial(csv_table, rows))


def _csv_texts(runs: Sequence[StudyRun]) -> str:
    """The recognised texts in place of the metrics: a file of CSV is one table."""
    from stopwav.cli.output import understood
    from stopwav.report.csv_table import csv_texts

    rows = []
    for run in runs:
        texts = understood(run.record, lambda run=run: run.texts)  # type: ignore[misc]
        if texts is None:
            raise StopwavError(f"{run.record.path}: a run of {run.study.name!r} holds no recognised texts")
        rows.append((run.record, [(text.name, text.to_json()) for text in texts]))
    return csv_texts(rows)


def _markdown(runs: Sequence[StudyRun], images: Sequence[tuple[str, Path]], detail: Detail) -> str:
    from stopwav.cli.output import understood
    from stopwav.report.markdown import image, render_markdown

    documents = [understood(run.record, partial(run.document, detail)) for run in runs]
    parts = [render_markdown(document, every_metric=detail.every_metric) for document in documents]
    return "\n".join([*parts, *(image(title, path.as_posix()) for title, path in images)])


def _open(page: Path) -> None:
    import sys
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print(f"stopwav: no browser could be started; open {page} yourself", file=sys.stderr)
