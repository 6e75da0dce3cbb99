"""The Study object of `stopwav compare`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.compare.card import make_card
from stopwav.studies.compare.comparable import COMPARABLE
from stopwav.studies.compare.definitions import DEFINITIONS
from stopwav.studies.compare.document import compare_document
from stopwav.studies.compare.forecast import forecast, problems, speeds
from stopwav.studies.compare.results import compare_results, compare_texts
from stopwav.studies.compare.run import compare
from stopwav.studies.compare.run_data import read_run
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.compare.stored_pieces import compare_pieces, missing_keys
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="compare",
    question="Which of these models to ship: parameters, operations, latency, energy and word errors side by side.",
    spec=CompareSpec,
    run=compare,
    results=compare_results,
    document=compare_document,
    charts=lazily("stopwav.studies.compare.charts", "compare_charts"),
    definitions=DEFINITIONS,
    pieces=compare_pieces,
    missing=missing_keys,
    example={"engines": ["pocketsphinx", "moonshine"]},
    forecast=forecast,
    speeds=speeds,
    problems=problems,
    extras={"card": make_card},
    view=lambda run: {"data": read_run(run.record)},
    comparable=COMPARABLE,
    texts=compare_texts,
    failure_codes=("sample-", "model-", "cell-", "rounds-failed"),
    followed=("engine", "length"),
    series="compare",
)
