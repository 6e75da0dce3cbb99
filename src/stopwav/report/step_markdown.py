"""A step as Markdown: the tree, phases, memory, doubts, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.markdown import doubts, escape, metrics_table, table
from stopwav.report.provenance import machine_line, measured_line
from stopwav.report.step_layout import (
    DOUBT_NOTE,
    arrange_step,
    cells_of,
    memory_line,
    overhead_line,
    phase_line,
    spread_text,
    step_findings,
    title_of,
    told_cautions,
)

HEADINGS = ("", "share", "forward ms", "backward ms", "held", "parameters", "calls", "layers")
# As wide as an indentation can be in a cell of a table.
INDENT = "&nbsp;&nbsp;"


def step_markdown(record: Record, results: Sequence[Result], *, every_metric: bool = False) -> str:
    """What a step run found, as a document for a pull request, an issue or a README."""
    layout = arrange_step(results)
    parts = [f"### stopwav step: {escape(str(record.header.spec.get('model', '')), 80)}"]
    parts.append("\n".join(f"- {escape(finding)}" for finding in step_findings(results)))
    if layout.step.metrics:
        parts.append(escape(title_of(layout)))
        rows = [
            [INDENT * line.depth + escape(line.name), *map(escape, [*cells_of(line.row), spread_text(line.row)])]
            for line in layout.lines()
        ]
        parts.append(table(HEADINGS, rows))
        told = (f"By phase: {phase_line(layout)}", memory_line(layout), overhead_line(layout))
        parts.append("<br>\n".join(escape(line) for line in told if line))
        if any(row.params["doubtful"] for row in layout.rows):
            parts.append(escape(DOUBT_NOTE))
        if every_metric:
            parts.append(metrics_table([layout.step, *layout.rows]))
    parts += [part for part in (doubts(told_cautions(layout)),) if part]
    parts.append(
        f"Measured: {escape(measured_line(record.header))}<br>\nMachine: {escape(machine_line(record.header))}"
    )
    return "\n\n".join(parts) + "\n"
