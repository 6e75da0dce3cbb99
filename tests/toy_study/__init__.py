"""A study of a package of its own: how long it takes to count. It is the whole of what a study needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Annotated

from pydantic import Field

from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.report.chart import Chart
from stopwav.report.document import Cell, Column, Detail, Document, Row, Source, Table
from stopwav.report.text import format_interval
from stopwav.stats import summarise_rounds
from stopwav.studies.budget import (
    FEWEST_ROUNDS,
    BudgetedSpec,
    half_width,
    is_finished,
    open_budget,
    possible_rounds,
    store_spent,
)
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric
from stopwav.studies.definition import Definition, Definitions
from stopwav.studies.resume import open_record
from stopwav.studies.spec import Option, make_header, study_function
from stopwav.studies.study import Study, StudyRun


class CountingSpec(BudgetedSpec):
    """The settings of a counting run."""

    counters: Annotated[list[str], Option("What to count with: `sum` or `loop`.", positional=True)] = Field(
        min_length=1
    )
    up_to: Annotated[int, Option("The number to count to.")] = Field(default=1000, gt=0)


@study_function(CountingSpec, "counters")
def counting(spec: CountingSpec) -> Record:
    """Return the run of a counting study."""
    with open_record("counting", spec, partial(make_header, "counting", spec)) as record:
        if not is_finished(record, spec):
            budget = open_budget(spec, record)
            for index in possible_rounds(spec.rounds):
                before_s = budget.spent_s
                _count_once(spec, record, index)
                store_spent(record, budget)
                spec.show(record, f"round {index + 1}", budget.left_s)
                if spec.is_budgeted and (_is_precise(spec, record) or not budget.fits(budget.spent_s - before_s)):
                    break
            record.finish()
    return record


def _count_once(spec: CountingSpec, record: Record, index: int) -> None:
    for done, name in enumerate(spec.counters):
        key = ("count", index, name)
        if key not in record:
            record.append(Piece(key=list(key), status="ok", data={"values_s": _count(name, spec.up_to)}))
        spec.report("counting", done + 1, len(spec.counters))


def _is_precise(spec: CountingSpec, record: Record) -> bool:
    estimates = [result.metrics["count_time"] for result in results(record)]
    return all(estimate.n >= FEWEST_ROUNDS and half_width(estimate) <= spec.precision for estimate in estimates)


def _count(name: str, up_to: int) -> list[float]:
    values_s = []
    for _ in range(5):
        start_s = time.perf_counter()
        if name == "sum":
            sum(range(up_to))
        else:
            for _number in range(up_to):
                pass
        values_s.append(time.perf_counter() - start_s)
    return values_s


def _rounds(record: Record, name: str) -> list[list[float]]:
    return [piece.data["values_s"] for piece in record.pieces if piece.key[0] == "count" and piece.key[2] == name]


def results(record: Record) -> list[Result]:
    """Return a result per counter."""
    spec = CountingSpec(**record.header.spec)
    return [
        Result(
            name, {"up_to": spec.up_to}, "ok", {"count_time": summarise_rounds(_rounds(record, name))}, kind="counter"
        )
        for name in spec.counters
    ]


def document(run: StudyRun, detail: Detail) -> Document:
    """Return a table with a row per counter."""
    rows = []
    for result in run.results:
        estimate = result.metrics["count_time"]
        source = Source(result.name, "count_time", estimate, 1e6)
        rows.append(Row((Cell(result.name), Cell(format_interval(estimate, 1e6), source=source))))
    table = Table((Column("counter", "left"), Column("time, µs")), tuple(rows))
    return Document("Counting", (table,), ("Counting was timed",), run.record, tuple(run.results), tuple(run.results))


def charts(run: StudyRun) -> Mapping[str, Chart]:
    """Return no charts: a study may have none."""
    return {}


def _items(record: Record) -> dict[str, ComparableItem]:
    def values(name: str, metric: RoundMetric, utterances: set[str]) -> list[float] | NoValue:
        return [median(values_s) for values_s in _rounds(record, name)]

    return {name: ComparableItem(partial(values, name)) for name in CountingSpec(**record.header.spec).counters}


STUDY = Study(
    name="counting",
    question="How long does it take to count?",
    spec=CountingSpec,
    run=counting,
    results=results,
    document=document,
    charts=charts,
    definitions=Definitions(
        {
            "Counting": {
                "count_time": Definition("time to count", "s", "Wall time of counting once.", headline="time, s")
            }
        }
    ),
    example={"counters": ["sum"]},
    comparable=Comparable("counter", (RoundMetric("count_time", "s", "time"),), _items),
    followed=("counter",),
)
