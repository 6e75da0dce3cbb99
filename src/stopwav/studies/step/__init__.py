"""`stopwav step`: where a training step goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stopwav.studies.step.definitions import DEFINITIONS
from stopwav.studies.step.document import step_comparison, step_document
from stopwav.studies.step.results import step_results
from stopwav.studies.step.run import step
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.step.verb import VERB
from stopwav.studies.study import Study, StudyRun

if TYPE_CHECKING:
    from stopwav.report.chart import Chart


def _charts(run: StudyRun) -> Mapping[str, Chart]:
    # Every worker imports this package: Altair would slow its start and swell its memory.
    from stopwav.studies.step.charts import step_charts

    return step_charts(run)


STUDY = Study(
    name="step",
    question="Where does my training step go: forward, backward and memory of each module.",
    spec=StepSpec,
    run=step,
    results=step_results,
    document=step_document,
    charts=_charts,
    definitions=DEFINITIONS,
    example={"model": "conformer-transducer"},
    verb=VERB,
    comparison=step_comparison,
    failure_codes=("step-",),
)
