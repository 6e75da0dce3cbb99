"""A step as Markdown: the tree, phases, memory, doubts, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.markdown import doubts, escape, metrics_table, origin, table
from stopwav.report.step_layout import (
    arrange_step,
    cells_of,
    doubt_note,
    spread_text,
    step_findings,
    summary_lines,
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
        parts.append("<br>\n".join(map(escape, summary_lines(layout))))
        if note := doubt_note(layout):
            parts.append(escape(note))
        if every_metric:
            parts.append(metrics_table([layout.step, *layout.rows]))
    parts += [part for part in (doubts(told_cautions(layout)),) if part]
    parts.append(origin(record.header))
    return "\n\n".join(parts) + "\n"
