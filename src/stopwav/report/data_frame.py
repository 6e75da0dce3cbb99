"""Results as a data frame of pandas, polars or pyarrow: long form, a row per result and metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from stopwav.errors import StopwavError
from stopwav.report.csv_table import COLUMNS, LONGEST_TEXT, Run, metric_rows
from stopwav.report.text import plain

# In the order in which they are looked for.
LIBRARIES = ("pandas", "polars", "pyarrow")
# Before the columns of the metric: the question, and whether a row is of an engine, a cell, a length, …
BEFORE = ("study", "kind")
_TYPES = {"value": "Float64", "low": "Float64", "high": "Float64", "n": "Int64", "rough": "Boolean"}


def data_frame(run: Run, params: Sequence[str] = (), library: str | None = None) -> Any:
    """Return the results of a run as a data frame, with a column for each of the named params of its results."""
    import narwhals

    backend = _installed(library)
    record, results, _ = run
    known = dict.fromkeys(name for result in results for name in result.params)
    for name in params:
        if name not in known:
            raise StopwavError(f"{record.path}: no result has the param {name!r}: there are {', '.join(known)}")
    rows = [
        {name: result.params.get(name) for name in params}
        | {"study": record.header.study, "kind": result.kind}
        | dict(zip(COLUMNS, row, strict=True))
        for result, row in metric_rows(run)
    ]
    columns = {name: [row[name] for row in rows] for name in (*BEFORE, *COLUMNS, *params)}
    columns["rough"] = [bool(rough) for rough in columns["rough"]]
    types = {name: _TYPES.get(name) or _type(values) for name, values in columns.items()}
    schema = {name: getattr(narwhals, kind) for name, kind in types.items()}
    content = {name: _typed(values, types[name]) for name, values in columns.items()}
    return narwhals.from_dict(content, schema, backend=backend).to_native()


def _installed(library: str | None) -> Any:
    """The library that was asked for, or the first that is installed."""
    if library is not None and library not in LIBRARIES:
        raise StopwavError(f"a data frame of {library!r}: there are {', '.join(LIBRARIES)}")
    for name in LIBRARIES if library is None else (library,):
        if find_spec(name) is not None:
            return name
    if library is not None:
        raise StopwavError(f"a data frame of {library}: the package is not installed; pip install {library}")
    raise StopwavError("a data frame needs pandas, polars or pyarrow, and none is installed; pip install pandas")


def _type(values: Sequence[object]) -> str:
    """The type of a column: of numbers or of yes and no where all are, else of text."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "Boolean"
    if kinds == {int}:
        return "Int64"
    return "Float64" if kinds & {int, float} and kinds <= {int, float, type(None)} else "String"


def _typed(values: Sequence[Any], kind: str) -> list[Any]:
    if kind == "Float64":
        return [None if value is None else float(value) for value in values]
    # Libraries that store UTF-8 refuse the lone surrogates of an engine's output.
    return [_as_text(value) for value in values] if kind == "String" else list(values)


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return plain(value if isinstance(value, str) else json.dumps(value), LONGEST_TEXT)
