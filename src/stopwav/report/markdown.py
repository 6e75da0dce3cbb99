"""A document as Markdown for a pull request, an issue or a README: tables as GitHub reads them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stopwav.record import Header, Result
from stopwav.report.document import (
    LONGEST_LINE,
    LONGEST_NOTE,
    Block,
    Document,
    Lines,
    Missing,
    Note,
    Table,
    footnotes,
    legend,
    shown,
)
from stopwav.report.provenance import machine_line, measured_line
from stopwav.report.text import DASH, format_interval, plain

# A name longer than this would make a column that nobody can read.
LONGEST_NAME = 80
# What can begin markup, a link or a cell in Markdown or HTML, at the beginning of a text or in it. As a character
# reference it never does.
_MARKUP = re.compile(
    r"[&<>|\\`*~\[\]#!@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=]|^\d(?=\d*[.)])", re.IGNORECASE
)
# `@name` calls a person and `#1` an issue, even where the sign is a reference; a comment between them hushes both.
_CALLS = ("@", "#")
# A number with its interval does nothing in a cell, and is for people to read in the source as well.
_NUMBER = re.compile(r"(?!.*(_|www\.))[\w.,–+ %≥×✗?()-]{0,60}(≈?\[[\d.– to-]{0,40}\])?[\w ✗?]{0,20}", re.IGNORECASE)
# As wide as an indentation can be in a cell of a table.
INDENT = "&nbsp;&nbsp;"


def render_markdown(document: Document, *, every_metric: bool = False) -> str:
    """Return the document: findings first, then its blocks, warnings, and where it comes from."""
    parts = [f"### stopwav: {escape(document.title)}"]
    parts.append("\n".join(f"- {escape(finding, LONGEST_NOTE)}" for finding in document.findings))
    parts += [_block(block) for block in shown(document.blocks, "markdown")]
    measured = [result for result in document.measured if result.metrics]
    if every_metric and measured:
        parts.append(_metrics(measured))
    parts += map(_block, legend(document, "markdown", every_metric))
    parts.append("\n".join(f"- ⚠ {_bold(note.code)} {escape(note.text)}" for note in footnotes(document.warned)))
    if document.record is not None:
        parts.append(origin(document.record.header, document.rounds))
    return "\n\n".join(part for part in parts if part) + "\n"


def origin(header: Header, rounds: str) -> str:
    """Return where a run comes from: what was measured, in which rounds, and on what machine."""
    return f"Measured: {escape(measured_line(header, rounds))}<br>\nMachine: {escape(machine_line(header))}"


def escape(text: str, longest: int = 300) -> str:
    """Return Markdown that shows the text and does nothing else: no markup, cell, link, mention or control code."""
    return _MARKUP.sub(_reference, plain(text, longest))


def image(title: str, path: str) -> str:
    """Return an image of a file, by its path."""
    from urllib.parse import quote

    return f"![{escape(title)}]({quote(path)})\n"


def _bold(text: str) -> str:
    # Asterisks beside a space, or beside each other, make nothing bold.
    return f"**{stripped}**" if (stripped := escape(text).strip()) else ""


def _reference(match: re.Match[str]) -> str:
    hush = "<!-- -->" if match[0] in _CALLS else ""
    return f"&#{ord(match[0])};{hush}"


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Lines):
        return "\n".join([f"{escape(block.title)}:", "", *(f"- {escape(line, LONGEST_LINE)}" for line in block.lines)])
    if isinstance(block, Note):
        return escape(block.text, LONGEST_NOTE)
    if isinstance(block, Missing) and block.reasons:
        lines = [f"- {escape(reason, LONGEST_LINE)}" for reason in block.reasons]
        summary = "<details><summary>Numbers and intervals that are missing, and why</summary>"
        return "\n".join([summary, "", *lines, "", "</details>"])
    return ""


def _table(table: Table) -> str:
    rows = []
    for row in table.rows:
        if row.heading:
            rows.append([_bold(row.cells[0].text), *[""] * (len(table.columns) - 1)])
        else:
            first, *others = (
                _cell(cell.text, column.longest) for cell, column in zip(row.cells, table.columns, strict=True)
            )
            rows.append([INDENT * row.depth + first, *others])
    title = [_bold(table.title)] if table.title else []
    headings = [escape(column.heading, LONGEST_NAME) for column in table.columns]
    aligned = [column.align for column in table.columns]
    return "\n\n".join(
        [
            *title,
            table_text(headings, aligned, rows),
            *(f"<sub>{escape(note, LONGEST_LINE)}</sub>" for note in table.notes),
        ]
    )


def _cell(text: str, longest: int) -> str:
    return text if _NUMBER.fullmatch(text) else escape(text, longest)


def table_text(headings: Sequence[str], aligned: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    ruler = [":---" if align == "left" else "---:" for align in aligned]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, ruler, *rows))


def _metrics(results: Sequence[Result]) -> str:
    """Every metric of every result with its interval."""
    names = dict.fromkeys(name for result in results for name in result.metrics)
    rows = []
    for name in names:
        estimates = [result.metrics.get(name) for result in results]
        unit = next((estimate.unit for estimate in estimates if estimate is not None), "")
        # Seconds as they are stored: six decimals are microseconds.
        cells = [DASH if estimate is None else format_interval(estimate, most=6) for estimate in estimates]
        rows.append([escape(name), *cells, escape(unit)])
    headings = ["metric", *(escape(result.name, LONGEST_NAME) for result in results), "unit"]
    return table_text(headings, ["left", *["right"] * (len(headings) - 1)], rows)
