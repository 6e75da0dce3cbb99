"""Run files of earlier versions, of every study: read as they were, with the numbers they had, shown in every medium.

Beside each run in `tests/data` lies what the version before computed from it: name, metric, value. `latency-columns` is
`latency-failures` in format 2, with the values of format 1. Fits of two points, which older versions had, are gone.
"""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from command_line import command as stopwav
from shown_runs import markdown, page, printed

from stopwav.record import Record, Result
from stopwav.report.csv_table import csv_table
from stopwav.studies.study import LISTED, StudyRun, results

DATA = Path(__file__).parent / "data"
STEMS = sorted(path.stem for path in DATA.glob("*.jsonl"))
# How those results ended that are not ok; the report then exits with 1.
FAILED = {
    "compare-failed": ["error"] * 4,
    "compare-metered": ["crashed"],
    "grid-failures": ["crashed", "timeout", "oom"],
    "latency-columns": ["error"],
    "latency-failures": ["error"],
    "load-levels": ["timeout"],
    "loss-kinds": ["crashed", "error", "skipped", "skipped"],
}


def read(stem: str) -> tuple[Record, dict[str, Result]]:
    record = Record.read(DATA / f"{stem}.jsonl")
    return record, {result.name: result for result in results(record)}


def values_before(stem: str) -> dict[str, dict[str, float | None]]:
    stored: dict[str, dict[str, float | None]] = json.loads((DATA / f"{stem}.json").read_text())
    return stored


def test_every_study_has_a_run() -> None:
    assert {Record.read(DATA / f"{stem}.jsonl").header.study for stem in STEMS} == set(LISTED)
    assert {path.stem for path in DATA.glob("*.json")} == set(STEMS)


@pytest.mark.parametrize("stem", STEMS)
def test_json_has_the_values_it_had(stem: str) -> None:
    done = stopwav("report", DATA / f"{stem}.jsonl", "--json")
    assert done.code == (1 if stem in FAILED else 0)
    rows = json.loads(done.stdout)["results"]
    assert [row["status"] for row in rows if row["status"] != "ok"] == FAILED.get(stem, [])
    before = values_before(stem)
    assert [row["name"] for row in rows] == list(before)
    for row in rows:
        # Later versions add metrics.
        assert [metric for metric in row["metrics"] if metric in before[row["name"]]] == list(before[row["name"]])
        for metric, value in before[row["name"]].items():
            # Older versions ranked by the times of one round, which names a winner by chance.
            if metric == "rank" and row["params"]["rounds"] == 1:
                value = None
            expected = None if value is None else pytest.approx(value, rel=1e-9)
            assert row["metrics"][metric]["value"] == expected, f"{row['name']} {metric}"


@pytest.mark.parametrize("stem", STEMS)
def test_it_is_shown_in_every_medium(stem: str) -> None:
    run = StudyRun(Record.read(DATA / f"{stem}.jsonl"))
    names = {result.name for result in run.results}
    metrics = {metric for result in run.results for metric in result.metrics}
    for every_metric in (False, True):
        for text in (printed(run, every_metric=every_metric), markdown(run, every_metric=every_metric)):
            assert len(text.splitlines()) > 5
    assert "### stopwav" in text
    rows = list(csv.DictReader(io.StringIO(csv_table([(run.record, run.results, run.study.failure_codes)]))))
    assert {row["name"].removeprefix("'") for row in rows} == names
    assert {row["metric"] for row in rows} >= metrics
    assert page(run).startswith("<!doctype html>")


@pytest.mark.parametrize("stem", STEMS)
def test_intervals_hold_their_values(stem: str) -> None:
    _, by_name = read(stem)
    for result in by_name.values():
        for name, estimate in result.metrics.items():
            if estimate.low is not None and estimate.high is not None and estimate.value is not None:
                assert estimate.low <= estimate.value + 1e-12, name
                assert estimate.value <= estimate.high + 1e-12, name


def test_the_header_is_understood() -> None:
    record, by_name = read("latency-real")
    assert record.complete
    assert record.header.format == 1
    assert record.header.corpus["name"] == "bundled"
    assert record.header.normaliser == {"name": "stopwav-english", "version": 1}
    assert list(by_name) == ["pocketsphinx", "moonshine"]
    params = by_name["moonshine"].params
    assert (params["utterances"], params["words"], params["rounds"], params["pace"]) == (4, 50, 2, "virtual")


def test_failed_streams_have_the_messages_they_had() -> None:
    record, by_name = read("latency-failures")
    assert record.complete
    assert {name: result.status for name, result in by_name.items()} == {
        "fake:script.json": "ok",
        "flaky.py:Flaky": "ok",
        "flaky.py:Never": "error",
    }
    warnings = [(name, warning) for name, result in by_name.items() for warning in result.warnings]
    messages = {(name, warning.code): warning.message for name, warning in warnings}
    assert "did not load: OSError: model.bin: no such file" in messages["flaky.py:Never", "stream-error"]
    assert "u3.wav is empty" in messages["fake:script.json", "stream-error"]
    flaky = [warning.message for warning in by_name["flaky.py:Flaky"].warnings]
    assert any("u2: in chunk 4 (audio 0.30 to 0.40 s): ValueError" in message for message in flaky)


@pytest.mark.parametrize("stem", STEMS)
def test_it_names_no_place_on_the_machine_that_made_it(stem: str) -> None:
    text = (DATA / f"{stem}.jsonl").read_text()
    assert not re.search(r'"/|[ (]/(?!\s)\w|/(home|tmp|root|work)/', text)
    for line in text.splitlines():
        json.loads(line)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 500_000
