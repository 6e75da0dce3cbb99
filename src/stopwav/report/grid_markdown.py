"""A grid as Markdown: the tables that the field knows, the laws, doubts, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.grid_findings import grid_findings
from stopwav.report.grid_layout import (
    absent_note,
    arrange,
    by_place,
    frontier_text,
    interval_text,
    law_text,
    pace_note,
    prediction_text,
    tables,
)
from stopwav.report.markdown import doubts, escape, metrics_table, origin, table


def grid_markdown(
    record: Record, results: Sequence[Result], *, every_metric: bool = False, scientific: bool = False
) -> str:
    """What a grid run found, as a document for a pull request, an issue or a README."""
    layout = arrange(results)
    parts = [f"### stopwav grid: {escape(layout.engine, 80)}"]
    parts.append("\n".join(f"- {escape(finding)}" for finding in grid_findings(results)))
    for one in tables(layout, scientific=scientific):
        headings = ["", *(f"× {size}" for size in layout.batch_sizes)]
        rows = [[f"{duration_s:g} s", *cells] for duration_s, cells in zip(layout.durations, one.rows, strict=True)]
        parts.append(f"**{escape(one.title)}**\n\n{table(headings, rows)}")
    below = (f"In brackets: {interval_text(layout)}.", pace_note(layout), absent_note(layout))
    parts.append(escape(" ".join(filter(None, below))))
    for heading, lines in (
        ("Time of a batch over its duration d, and over its size B", [law_text(law) for law in layout.laws]),
        ("Predictions, not measurements", [prediction_text(law) for law in layout.laws]),
        ("Largest batch that fits", [frontier_text(one) for one in layout.frontier]),
    ):
        told = [f"- {escape(line)}" for line in lines if line]
        if told:
            parts.append("\n".join([f"{heading}:", "", *told]))
    if every_metric and layout.measured:
        parts.append(metrics_table(layout.measured))
    parts += [part for part in (doubts(by_place(layout)),) if part]
    parts.append(origin(record.header))
    return "\n\n".join(parts) + "\n"
