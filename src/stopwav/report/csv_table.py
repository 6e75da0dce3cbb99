"""Runs as a table for a spreadsheet or a data frame: long form, a row per engine and metric."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stopwav.record import Record, Result
from stopwav.report.text import plain

COLUMNS = ("run", "name", "metric", "value", "low", "high", "n", "unit", "note", "rough")
# Of a recognised text, after the run and the name of its engine.
TEXT_COLUMNS = (
    "utterance",
    "reference",
    "text",
    "times",
    "attempts",
    "substitutions",
    "deletions",
    "insertions",
    "words",
    "character_errors",
    "characters",
    "failure",
)
# A cell of a spreadsheet holds 32,767 characters; nobody reads a note of more than this.
LONGEST_TEXT = 2000
# What a spreadsheet takes for the beginning of a formula, and would compute: `=HYPERLINK(…)` from an engine's name.
_FORMULA = ("=", "+", "-", "@")


# A run, its results, and how the codes of those warnings begin that say why something was not measured.
Run = tuple[Record, Sequence[Result], tuple[str, ...]]


def csv_table(runs: Iterable[Run]) -> str:
    """Return the runs with their results as RFC 4180 text, numbers in full and in the units in which they are stored.

    A metric without a value has an empty one and a note; `rough` is `true` for an interval from few samples. An engine
    of which nothing was measured has one row, with `status` for a metric and the reason for a note.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(COLUMNS)
    for run in runs:
        writer.writerows([_written(value) for value in row] for _, row in metric_rows(run))
    return text.getvalue()


def csv_rows(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows of texts and numbers as RFC 4180 text, numbers in full; None is an empty field."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(columns)
    writer.writerows([_text(field) if isinstance(field, str) else field for field in row] for row in rows)
    return text.getvalue()


def csv_texts(runs: Iterable[tuple[Record, Iterable[tuple[str, Mapping[str, Any]]]]]) -> str:
    """Return recognised texts as RFC 4180 text, a row per engine, utterance and text, from their names and fields.

    Texts are whole, with their line breaks.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel")
    writer.writerow(("run", "name", *TEXT_COLUMNS))
    for record, texts in runs:
        for name, fields in texts:
            values = [fields[column] for column in TEXT_COLUMNS]
            cells = [_whole(value) if isinstance(value, str) else value for value in values]
            writer.writerow([_text(str(record.path)), _text(name), *cells])
    return text.getvalue()


def metric_rows(run: Run) -> Iterator[tuple[Result, tuple[Any, ...]]]:
    """Yield a row per result and metric with its result: values as they are, in the order of `COLUMNS`."""
    record, results, failure_codes = run
    for result in results:
        place = (str(record.path), result.name)
        if not result.metrics:
            reasons = (warning.message for warning in result.warnings if warning.code.startswith(failure_codes))
            note = f"{result.status}: {next(reasons, 'nothing was measured')}"
            yield result, (*place, "status", None, None, None, 0, "", note, None)
        for name, estimate in result.metrics.items():
            numbers = (estimate.value, estimate.low, estimate.high, estimate.n)
            yield result, (*place, name, *numbers, estimate.unit, estimate.note, estimate.rough)


def _written(value: object) -> object:
    """A value as a field of CSV: numbers in full, texts on one line, nothing where there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """The text on one line, with an apostrophe before what a spreadsheet would compute."""
    return _not_computed(plain(text, LONGEST_TEXT))


def _whole(text: str) -> str:
    """The text as it is, but for control characters that are no white space, and for what has no encoding."""
    kept = (
        char if char in "\n\r\t" or unicodedata.category(char) not in ("Cc", "Cs") else plain(char) for char in text
    )
    return _not_computed("".join(kept))


def _not_computed(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
