"""Runs as a table for a spreadsheet or a data frame: long form, a row per engine and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from stopwav.record import Record, Result
from stopwav.report.text import plain

COLUMNS = ("run", "name", "metric", "value", "low", "high", "n", "unit", "note")
# A cell of a spreadsheet holds 32,767 characters; nobody reads a note of more than this.
LONGEST_TEXT = 2000
# What a spreadsheet takes for the beginning of a formula, and would compute: `=HYPERLINK(…)` from an engine's name.
_FORMULA = ("=", "+", "-", "@")


# A run, its results, and how the codes of those warnings begin that say why something was not measured.
Run = tuple[Record, Sequence[Result], tuple[str, ...]]


def csv_table(runs: Iterable[Run]) -> str:
    """Return the runs with their results as RFC 4180 text, numbers in full and in the units in which they are stored.

    A metric without a value has an empty one and a note. An engine of which nothing was measured has one row, with
    `status` for a metric and the reason for a note.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(COLUMNS)
    for record, results, failure_codes in runs:
        for result in results:
            writer.writerows(_rows(record, result, failure_codes))
    return text.getvalue()


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows of texts and numbers as RFC 4180 text, numbers in full; None is an empty field."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(columns)
    writer.writerows([_text(field) if isinstance(field, str) else field for field in row] for row in rows)
    return text.getvalue()


def _rows(record: Record, result: Result, failure_codes: tuple[str, ...]) -> Iterator[list[object]]:
    place = [_text(str(record.path)), _text(result.name)]
    if not result.metrics:
        reasons = (warning.message for warning in result.warnings if warning.code.startswith(failure_codes))
        reason = next(reasons, "nothing was measured")
        yield [*place, "status", "", "", "", 0, "", _text(f"{result.status}: {reason}")]
    for name, estimate in result.metrics.items():
        numbers = ["" if number is None else repr(number) for number in (estimate.value, estimate.low, estimate.high)]
        yield [*place, _text(name), *numbers, estimate.n, _text(estimate.unit), _text(estimate.note)]


def _text(text: str) -> str:
    """The text on one line, with an apostrophe before what a spreadsheet would compute."""
    safe = plain(text, LONGEST_TEXT)
    return f"'{safe}" if safe.lstrip().startswith(_FORMULA) else safe
