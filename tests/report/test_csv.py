"""Runs as CSV: every metric of every engine, read back as it was, and nothing that a spreadsheet would compute."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import FAILURES, HOSTILE, REAL, found_in

from stopwav.errors import Caution
from stopwav.record import Record, Result
from stopwav.report.csv_table import COLUMNS, csv_table

Run = tuple[Record, list[Result], tuple[str, ...]]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def run_of(path: Path) -> Run:
    return (*found_in(path), ("stream-",))


def test_every_metric_of_every_engine_comes_back_exactly() -> None:
    runs = [run_of(REAL), run_of(FAILURES)]
    rows = rows_of(csv_table(runs))
    assert tuple(rows[0]) == COLUMNS
    for record, results, _ in runs:
        for result in results:
            own = [row for row in rows if (row["run"], row["name"]) == (str(record.path), result.name)]
            by_metric = {row["metric"]: row for row in own}
            assert set(by_metric) == (set(result.metrics) or {"status"})
            for name, estimate in result.metrics.items():
                row = by_metric[name]
                read = [None if row[key] == "" else float(row[key]) for key in ("value", "low", "high")]
                assert read == [estimate.value, estimate.low, estimate.high]
                assert int(row["n"]) == estimate.n
                assert row["unit"] == estimate.unit


def test_an_engine_without_a_number_says_why() -> None:
    (row,) = [row for row in rows_of(csv_table([run_of(FAILURES)])) if row["metric"] == "status"]
    assert row["name"] == "flaky.py:Never"
    assert "model.bin: no such file" in row["note"]
    assert row["value"] == ""


def test_lines_end_as_the_standard_says_and_have_one_row_each() -> None:
    text = csv_table([run_of(REAL)])
    assert text.endswith("\r\n")
    assert len(text.split("\r\n")) == len(rows_of(text)) + 2
    assert "\n" not in text.replace("\r\n", "")


@pytest.mark.parametrize("hostile", [*HOSTILE, "=1+1", "+1", "-1", "@x", "\t=1", "  =1", "\r=1"])
def test_no_text_is_a_formula(hostile: str) -> None:
    record, results, codes = run_of(FAILURES)
    broken = replace(results[2], name=hostile, warnings=(Caution("stream-error", hostile),))
    text = csv_table([(record, [replace(results[0], name=hostile), broken], codes)])
    text.encode("utf-8")
    rows = rows_of(text)
    assert len(rows) == len(results[0].metrics) + 1
    for row in rows:
        for column in ("run", "name", "metric", "unit", "note"):
            assert not row[column].lstrip().startswith(("=", "+", "-", "@"))
            assert len(row[column]) < 32_767
