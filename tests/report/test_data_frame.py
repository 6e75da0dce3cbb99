"""Results as data frames: every number as it is, in each library that is installed, and what is said without any."""

import importlib.util
from pathlib import Path
from typing import Any

import narwhals
import pytest
from stored_runs import DATA, FAILURES, HOSTILE, REAL, renamed

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.report import data_frame
from stopwav.studies.study import results

COLUMNS = ["study", "kind", "run", "name", "metric", "value", "low", "high", "n", "unit", "note", "rough"]


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def library(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return request.param


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in narwhals.from_native(frame).rows(named=True)
    ]


def test_every_metric_of_every_result_is_a_row_as_it_is(library: str) -> None:
    record = Record.read(FAILURES)
    frame = record.frame(library=library)
    assert type(frame).__module__.split(".")[0] == library
    rows = {(row["name"], row["metric"]): row for row in rows_of(frame)}
    assert list(rows_of(frame)[0]) == COLUMNS
    expected = [(result, name, estimate) for result in results(record) for name, estimate in result.metrics.items()]
    assert len(expected) > 50
    for result, name, estimate in expected:
        row = rows.pop((result.name, name))
        assert (row["value"], row["low"], row["high"], row["n"]) == (
            estimate.value, estimate.low, estimate.high, estimate.n
        )  # fmt: skip
        assert (row["unit"], row["note"], row["rough"]) == (estimate.unit, estimate.note, estimate.rough)
        assert (row["study"], row["kind"], row["run"]) == ("latency", result.kind, str(FAILURES))
    # What has no metric has a row that says why.
    assert {metric for _, metric in rows} == {"status"}
    assert "model.bin: no such file" in next(iter(rows.values()))["note"]


def test_numbers_are_numbers_whatever_is_missing(library: str) -> None:
    schema = narwhals.from_native(Record.read(FAILURES).frame(library=library)).schema
    assert [schema[name] for name in ("value", "low", "high", "n")] == [narwhals.Float64] * 3 + [narwhals.Int64]
    assert schema["rough"] == narwhals.Boolean


def test_the_params_of_a_grid_become_columns(library: str) -> None:
    record = Record.read(DATA / "grid-emformer.jsonl")
    frame = record.frame(["duration_s", "batch_size", "engine"], library)
    rows = rows_of(frame)
    places = {(row["name"], row["duration_s"], row["batch_size"]) for row in rows if row["kind"] == "cell"}
    assert places == {
        (result.name, result.params["duration_s"], result.params["batch_size"])
        for result in results(record)
        if result.kind == "cell"
    }
    # What is no number, text or yes and no is JSON.
    assert all(row["engine"].startswith("{") for row in rows if row["kind"] == "cell" and row["engine"])


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_stops_a_frame(name: str, library: str, tmp_path: Path) -> None:
    if not name:
        pytest.skip("no engine has that name")
    frame = Record.read(renamed(REAL, tmp_path / "hostile.jsonl", name)).frame(library=library)
    assert len({row["name"] for row in rows_of(frame)}) == 2


def test_a_wrong_name_lists_the_right_ones() -> None:
    record = Record.read(REAL)
    with pytest.raises(StopwavError, match="no result has the param 'duration': there are engine, setting, corpus"):
        record.frame(["duration"])
    with pytest.raises(StopwavError, match="a data frame of 'dask': there are pandas, polars, pyarrow"):
        record.frame(library="dask")


def test_without_a_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_frame, "find_spec", lambda name: None)
    with pytest.raises(StopwavError, match="needs pandas, polars or pyarrow, and none is installed; pip install"):
        Record.read(REAL).frame()
    with pytest.raises(StopwavError, match="of polars: the package is not installed; pip install polars"):
        Record.read(REAL).frame(library="polars")


def test_the_first_that_is_installed_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    spec_of = importlib.util.find_spec
    monkeypatch.setattr(data_frame, "find_spec", lambda name: None if name == "pandas" else spec_of(name))
    assert type(Record.read(REAL).frame()).__module__.startswith("polars")
