"""A run as Markdown for a pull request, an issue or a README: tables as GitHub reads them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stopwav.record import Header, Record, Result
from stopwav.report.findings import latency_finding
from stopwav.report.latency_table import Row, lines_of, reasons_of
from stopwav.report.numbers import format_bytes, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.report.provenance import machine_line, measured_line
from stopwav.stats import Estimate

# A name longer than this would make a column that nobody can read.
LONGEST_NAME = 80
# What can begin markup, a link or a cell in Markdown or HTML, at the beginning of a text or in it. As a character
# reference it never does.
_MARKUP = re.compile(
    r"[&<>|\\`*~\[\]#!@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=]|^\d(?=\d*[.)])", re.IGNORECASE
)
# `@name` calls a person and `#1` an issue, even where the sign is a reference; a comment between them hushes both.
_CALLS = ("@", "#")


def markdown_report(record: Record, results: Sequence[Result], *, every_metric: bool = False) -> str:
    """What a run found: its findings, a table with a column per engine, doubts, and where it comes from."""
    measured = [result for result in results if result.metrics]
    names = ", ".join(escape(result.name, LONGEST_NAME) for result in results)
    parts = [f"### stopwav {escape(record.header.study)}: {names}"]
    parts.append("\n".join(f"- {escape(latency_finding(result))}" for result in results))
    if measured:
        parts.append((metrics_table if every_metric else _key_metrics)(measured))
        parts.append("In brackets the 95 % interval; – is a number that the data cannot support.")
    parts += [part for part in (_missing(measured), doubts(results)) if part]
    parts.append(origin(record.header))
    return "\n\n".join(parts) + "\n"


def origin(header: Header) -> str:
    """Where a run comes from: what was measured, and on what machine."""
    return f"Measured: {escape(measured_line(header))}<br>\nMachine: {escape(machine_line(header))}"


def escape(text: str, longest: int = 300) -> str:
    """The text as Markdown that shows it and does nothing else: no markup, cell, link, mention or control character."""
    return _MARKUP.sub(_reference, plain(text, longest))


def _reference(found: re.Match[str]) -> str:
    hush = "<!-- -->" if found[0] in _CALLS else ""
    return f"&#{ord(found[0])};{hush}"


def image(title: str, path: str) -> str:
    """An image of a file, by its path."""
    from urllib.parse import quote

    return f"![{escape(title)}]({quote(path)})\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; the first column is to the left, the others to the right."""
    ruler = [":---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, ruler, *rows))


def _key_metrics(results: Sequence[Result]) -> str:
    rows: list[list[str]] = []
    for heading, lines in lines_of(results):
        rows.append([f"**{escape(heading)}**", *[""] * len(results)])
        for line in lines:
            rows.append([escape(line.label), *(_cell(result.metrics.get(line.metric), line) for result in results)])
    return table(["", *(escape(result.name, LONGEST_NAME) for result in results)], rows)


def _cell(estimate: Estimate | None, line: Row) -> str:
    if estimate is None:
        return "–"
    if estimate.unit == "B":
        return format_bytes(estimate.value) if estimate.value is not None else format_value(estimate)
    return format_interval(estimate, line.scale, line.decimals)


def metrics_table(results: Sequence[Result]) -> str:
    """Every metric of every result with its interval."""
    names = dict.fromkeys(name for result in results for name in result.metrics)
    rows = []
    for name in names:
        estimates = [result.metrics.get(name) for result in results]
        unit = next((one.unit for one in estimates if one is not None), "")
        # Seconds as they are stored: six decimals are microseconds.
        cells = ["–" if one is None else format_interval(one, most=6) for one in estimates]
        rows.append([escape(name), *cells, escape(unit)])
    return table(["metric", *(escape(result.name, LONGEST_NAME) for result in results), "unit"], rows)


def _missing(results: Sequence[Result]) -> str:
    """Why numbers of the table or their intervals are missing, each reason once."""
    reasons = reasons_of(results)
    if not reasons:
        return ""
    lines = [f"- {escape(note)}: {escape('; '.join(labels))}" for note, labels in reasons.items()]
    return "\n".join(["<details><summary>Numbers and intervals that are missing, and why</summary>", "", *lines]) + (
        "\n\n</details>"
    )


def doubts(results: Sequence[Result]) -> str:
    """Each warning once, with the engines it touches where it does not touch all."""
    touched: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for caution in result.warnings:
            touched.setdefault((caution.code, caution.message), []).append(result.name)
    lines = []
    for (code, message), names in touched.items():
        whom = "" if len(names) == len(results) else f"{', '.join(names)}: "
        lines.append(f"- ⚠ **{escape(code)}** {escape(whom + message)}")
    return "\n".join(lines)
