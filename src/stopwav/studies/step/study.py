"""The Study object of `stopwav step`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.step.comparable import COMPARABLE
from stopwav.studies.step.comparison_document import step_comparison
from stopwav.studies.step.definitions import DEFINITIONS
from stopwav.studies.step.document import step_document
from stopwav.studies.step.forecast import forecast
from stopwav.studies.step.results import step_results
from stopwav.studies.step.run import step
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.step.stored_pieces import missing_keys, step_pieces
from stopwav.studies.step.verb import VERB
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="step",
    question="Where does my training step go: forward, backward and memory of each module.",
    spec=StepSpec,
    run=step,
    results=step_results,
    document=step_document,
    charts=lazily("stopwav.studies.step.charts", "step_charts"),
    definitions=DEFINITIONS,
    pieces=step_pieces,
    missing=missing_keys,
    example={"model": "conformer-transducer"},
    verb=VERB,
    forecast=forecast,
    comparable=COMPARABLE,
    comparison=step_comparison,
    failure_codes=("step-",),
    followed=("step", "label", "stage"),
    side_by_side=False,
    series="step",
)
