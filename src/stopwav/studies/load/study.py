"""The Study object of `stopwav load`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.load.comparable import COMPARABLE
from stopwav.studies.load.definitions import DEFINITIONS
from stopwav.studies.load.document import load_document
from stopwav.studies.load.forecast import forecast, problems
from stopwav.studies.load.pairs import capacity_verdicts
from stopwav.studies.load.results import load_results
from stopwav.studies.load.run import load
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.stored_pieces import load_pieces, missing_keys
from stopwav.studies.load.view import load_view
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="load",
    question="How many people can it serve at once, under a named objective?",
    spec=LoadSpec,
    run=load,
    results=load_results,
    document=load_document,
    charts=lazily("stopwav.studies.load.charts", "load_charts"),
    definitions=DEFINITIONS,
    pieces=load_pieces,
    missing=missing_keys,
    example={"targets": ["pocketsphinx"]},
    forecast=forecast,
    problems=problems,
    extras={"verdicts": lambda run: capacity_verdicts(run.record)},
    view=load_view,
    comparable=COMPARABLE,
    failure_codes=("level-",),
    followed=("target", "level"),
    series="load",
)
