"""Runs as a table for a spreadsheet or a data frame: long form, a row per engine and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from stopwav.record import Record, Result
from stopwav.report.plain import plain
from stopwav.report.presentation import presentation_of

COLUMNS = ("run", "name", "metric", "value", "low", "high", "n", "unit", "note")
# A cell of a spreadsheet holds 32,767 characters; nobody reads a note of more than this.
LONGEST_TEXT = 2000
# What a spreadsheet takes for the beginning of a formula, and would compute: `=HYPERLINK(…)` from an engine's name.
_FORMULA = ("=", "+", "-", "@")


def csv_table(runs: Iterable[tuple[Record, Sequence[Result]]]) -> str:
    """The runs with their results as RFC 4180 text, numbers in full and in the units in which they are stored.

    A metric that could not be had has an empty value and a note. An engine of which nothing was measured has one row,
    with `status` for a metric and the reason for a note.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(COLUMNS)
    for record, results in runs:
        for result in results:
            writer.writerows(_rows(record, result))
    return text.getvalue()


def _rows(record: Record, result: Result) -> Iterator[list[object]]:
    place = [_text(str(record.path)), _text(result.name)]
    if not result.metrics:
        lost = presentation_of(record.header.study).lost
        reasons = (w.message for w in result.warnings if w.code.startswith(lost))
        told = next(reasons, "nothing was measured")
        yield [*place, "status", "", "", "", 0, "", _text(f"{result.status}: {told}")]
    for name, one in result.metrics.items():
        numbers = ["" if number is None else repr(number) for number in (one.value, one.low, one.high)]
        yield [*place, _text(name), *numbers, one.n, _text(one.unit), _text(one.note)]


def _text(text: str) -> str:
    """The text on one line, with an apostrophe before what a spreadsheet would compute."""
    safe = plain(text, LONGEST_TEXT)
    return f"'{safe}" if safe.lstrip().startswith(_FORMULA) else safe
