"""`stopwav report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import EveryMetric, Json, Labels, Scientific, Unfold
from stopwav.errors import StopwavError
from stopwav.report.detail import Detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stopwav.cli.output import Found


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run files.")],
    html: Annotated[
        Path | None, typer.Option(help="Write one page with a section per run, and a comparison on top of several.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables instead.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a row per engine and metric instead.")] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write the streams as a Chrome trace, which Perfetto opens.")
    ] = None,
    charts: Annotated[
        Path | None, typer.Option(help="Write the charts as SVG and PNG into this folder; --markdown shows them.")
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser; without --html it is written beside the run.")
    ] = False,
    every_metric: EveryMetric = False,
    scientific: Scientific = False,
    unfold: Unfold = False,
    labels: Labels = None,
    json: Json = False,
) -> None:
    """Show what runs found, computed again from their files."""
    from stopwav.cli import output
    from stopwav.record import Record

    detail = Detail(every_metric, scientific, unfold, labels)
    _only_one({"--json": json, "--markdown": markdown, "--csv": csv})
    records = [Record.read(path) for path in runs]
    page = _page(html, trace, runs, open_page)
    found: list[Found] = [(record, output.results_of(record)) for record in records]
    if trace is not None:
        _write_trace(found, trace)
    if page is not None:
        output.write_page(found, page)
    images = [] if charts is None else _write_charts(found, charts)
    if markdown or csv:
        output.print_text(_document(found, images, detail, csv=csv))
    else:
        output.print_runs(found, as_json=json, detail=detail)
    if page is not None and open_page:
        _open(page)
    output.end_with(output.exit_code([result for _, results in found for result in results]))


def _only_one(asked: dict[str, bool]) -> None:
    named = [name for name, wanted in asked.items() if wanted]
    if len(named) > 1:
        raise StopwavError(f"{' and '.join(named)}: each fills standard output; give one of them at a time")


def _page(html: Path | None, trace: Path | None, runs: Sequence[Path], open_page: bool) -> Path | None:
    """Where the page goes, where one is asked for."""
    if html is not None and trace is not None and html.resolve() == trace.resolve():
        raise StopwavError(f"--html {html} and --trace {trace}: the same file; name two")
    if html is not None or not open_page:
        return html
    if len(runs) > 1:
        raise StopwavError(f"--open with {len(runs)} runs: say where their page goes with --html FILE")
    return runs[0].with_suffix(".html")


def _write_trace(found: Sequence[Found], path: Path) -> None:
    import json
    import sys

    from stopwav.cli.output import write_file
    from stopwav.studies.stream_trace import stream_trace

    records = [record for record, _ in found]
    write_file(path, json.dumps(stream_trace(records)), [record.path for record in records])
    print(f"trace: {path} (open it at ui.perfetto.dev or chrome://tracing)", file=sys.stderr)


def _write_charts(found: Sequence[Found], folder: Path) -> list[tuple[str, Path]]:
    """The charts that were written: the title of each, and its SVG file."""
    import sys

    from stopwav.cli.output import view_of, write_file
    from stopwav.report.charts import chart_png, chart_svg, charts_of

    written = []
    for record, results in found:
        for name, chart in charts_of(record.header.study, view_of(record), results).items():
            path = folder / f"{record.path.stem}-{name}.svg"
            write_file(path, chart_svg(chart.spec))
            path.with_suffix(".png").write_bytes(chart_png(chart.spec))
            written.append((chart.title, path))
    print(f"charts: {len(written)} in {folder}", file=sys.stderr)
    return written


def _document(found: Sequence[Found], images: Sequence[tuple[str, Path]], detail: Detail, *, csv: bool) -> str:
    if csv:
        from stopwav.report.csv_table import csv_table

        return csv_table(found)
    from stopwav.cli.output import beside_of
    from stopwav.report.markdown import image
    from stopwav.report.presentation import presentation_of

    parts = [
        presentation_of(record.header.study).markdown(record, results, beside_of(record), detail)
        for record, results in found
    ]
    return "\n".join([*parts, *(image(title, path.as_posix()) for title, path in images)])


def _open(page: Path) -> None:
    import sys
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print(f"stopwav: no browser could be started; open {page} yourself", file=sys.stderr)
