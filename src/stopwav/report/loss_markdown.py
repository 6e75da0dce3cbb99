"""A loss run as Markdown: a table per setting, doubts, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.loss_findings import loss_findings
from stopwav.report.loss_layout import legend, loss_tables
from stopwav.report.markdown import doubts, escape, metrics_table, origin, table

# A number with its interval does nothing in a cell, and is for people to read in the source as well.
_HARMLESS = re.compile(r"[\w.,–+ %≥-]*(\[[\d.–]*\])?")


def loss_markdown(record: Record, results: Sequence[Result], *, every_metric: bool = False) -> str:
    """What a loss run found, as a document for a pull request, an issue or a README."""
    spec = record.header.spec
    parts = [f"### stopwav loss on {escape(str(spec['device']))}, {escape(str(spec['dtype']))}"]
    parts.append("\n".join(f"- {escape(finding)}" for finding in loss_findings(results)))
    for one in loss_tables(results):
        rows = [[cell if _HARMLESS.fullmatch(cell) else escape(cell) for cell in row] for row in one.rows]
        parts.append(f"**{escape(one.title)}**\n\n{table(one.headings, rows)}\n\n{escape(one.about)}")
    parts += [escape(line) for line in legend(results)]
    measured = [result for result in results if result.metrics]
    if every_metric and measured:
        parts.append(metrics_table(measured))
    parts += [part for part in (doubts(results),) if part]
    parts.append(origin(record.header))
    return "\n\n".join(parts) + "\n"
