"""`stopwav traces`: analyse, diff and merge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import Json, verb_group

if TYPE_CHECKING:
    from stopwav.profiling.analysis import TraceAnalysis
    from stopwav.profiling.trace_diff import TraceDiff
    from stopwav.report.document import Document

traces = verb_group(
    "Analyse, compare or merge traces in Chrome's format: torch.profiler's, stopwav's, others'. Each verb takes --json."
)

Sort = Annotated[str, typer.Option(metavar="ORDER", help="Order of the rows: `own`, `total`, `calls` or `name`.")]
Top = Annotated[int | None, typer.Option(min=1, help="Rows per table; default: 15 in tables, all in --json and --csv.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of tables, a row per table and name.")]


@traces.command()
def analyse(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Traces (.json, .json.gz) or folders of them, added up.")
    ],
    sort: Sort = "own",
    top: Top = None,
    markdown: Markdown = False,
    csv: Csv = False,
    json: Json = False,
) -> None:
    """Show which operators and kernels took the time, own and total; idle devices and memory."""
    from stopwav.cli.output import EXIT_PARTLY, end_with
    from stopwav.profiling.analysis import analyse as analyse_traces
    from stopwav.profiling.trace_document import analysis_document

    _check_outputs(json, markdown, csv)
    analysis = analyse_traces(*files, sort=sort, report=False)  # type: ignore[arg-type]  # checked there
    if json:
        _print_json(analysis.to_json(), top)
    elif csv:
        _print_csv(_analysis_rows(analysis, top))
    else:
        _print_document(analysis_document(analysis, top), markdown)
    end_with(EXIT_PARTLY if analysis.skipped else 0)


@traces.command()
def diff(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="Trace to compare with, or a folder of them: repetitions of one thing.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Trace to compare, or a folder of them.")],
    per: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Divide by the number of spans of this name, or by 1 with `trace`; default: torch.profiler's marks of "
            "steps where every trace has them.",
        ),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="CHANGE", help="The change of own time that does not matter, as `1%` or `0.01`.")
    ] = "1%",
    sort: Sort = "own",
    top: Top = None,
    markdown: Markdown = False,
    csv: Csv = False,
    json: Json = False,
) -> None:
    """Show which operators, kernels, stages and functions became slower or faster, appeared or vanished."""
    from stopwav.cli.diff import parse_threshold
    from stopwav.profiling.trace_diff import diff_traces
    from stopwav.profiling.trace_document import trace_diff_document

    _check_outputs(json, markdown, csv)
    limit = parse_threshold(threshold)
    compared = diff_traces(a, b, per=per, threshold=limit, sort=sort)  # type: ignore[arg-type]  # checked there
    if json:
        _print_json(compared.to_json(), top)
    elif csv:
        _print_csv(_diff_rows(compared, top))
    else:
        _print_document(trace_diff_document(compared, top), markdown)


@traces.command()
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Traces (.json, .json.gz) or folders of them.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Trace to write: .json or .json.gz; TensorBoard reads .pt.trace.json or .pt.trace.json.gz.",
        ),
    ] = Path("merged.pt.trace.json.gz"),
    align: Annotated[
        str,
        typer.Option(
            metavar="RULE", help="`clock` keeps the real times of sources that say them; `start`: all begin together."
        ),
    ] = "clock",
    json: Json = False,
) -> None:
    """Merge traces into one, each source with processes named after it, for Perfetto and TensorBoard."""
    from stopwav.cli.output import check_target, print_json
    from stopwav.profiling.trace_document import merged_document
    from stopwav.profiling.trace_merge import merge_traces

    check_target(output)
    merged = merge_traces(files, output, align=align)  # type: ignore[arg-type]  # checked there
    if json:
        print_json(merged.to_json())
    else:
        _print_document(merged_document(merged), markdown=False)


def _check_outputs(json: bool, markdown: bool, csv: bool) -> None:
    from stopwav.cli.output import check_one_output

    check_one_output({"--json": json, "--markdown": markdown, "--csv": csv})


def _print_document(document: Document, markdown: bool) -> None:
    from stopwav.cli.output import print_text, show_document
    from stopwav.report.markdown import render_markdown

    if markdown:
        print_text(render_markdown(document))
    else:
        show_document(document)


def _print_json(fields: dict[str, Any], top: int | None) -> None:
    """Print the fields, of each table the first rows where so many were asked for."""
    from stopwav.cli.output import print_json
    from stopwav.profiling.trace_document import TABLES

    print_json({key: value[:top] if key in TABLES else value for key, value in fields.items()})


def _print_csv(rows: Iterator[dict[str, object]]) -> None:
    from stopwav.cli.output import print_text
    from stopwav.report.csv_table import csv_rows

    listed = list(rows)
    print_text(csv_rows(tuple(listed[0]) if listed else (), (row.values() for row in listed)))


def _analysis_rows(analysis: TraceAnalysis, top: int | None) -> Iterator[dict[str, object]]:
    for table, rows in analysis.tables.items():
        for row in rows[:top]:
            times = {"calls": row.calls, "self_s": row.self_s, "total_s": row.total_s}
            memory = {field: getattr(row, field, 0) for field in ("host_bytes", "device_bytes")}
            yield {"table": table, "name": row.name, "kind": row.kind, **times, **memory}


def _diff_rows(compared: TraceDiff, top: int | None) -> Iterator[dict[str, object]]:
    for table, rows in compared.tables.items():
        for row in rows[:top]:
            fields: dict[str, object] = {"table": table, "name": row.name, "kind": row.kind, "status": row.status}
            for field in ("calls", "self_s", "total_s", "self_per_call_s", "total_per_call_s"):
                fields |= {f"{field}_a": getattr(row.a, field), f"{field}_b": getattr(row.b, field)}
            fields |= {"self_change_s": row.self_change_s, "total_change_s": row.total_change_s}
            verdict = "" if row.own is None else row.own.verdict
            yield {**fields, "self_ratio": row.self_ratio, "verdict": verdict, "per": compared.per}
