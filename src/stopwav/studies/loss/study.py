"""The Study object of `stopwav loss`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.loss.check import problems
from stopwav.studies.loss.comparable import COMPARABLE
from stopwav.studies.loss.definitions import DEFINITIONS
from stopwav.studies.loss.document import loss_document
from stopwav.studies.loss.forecast import forecast
from stopwav.studies.loss.results import loss_results
from stopwav.studies.loss.run import loss
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.loss.stored_pieces import loss_pieces, missing_keys
from stopwav.studies.loss.verb import VERB
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="loss",
    question="Which transducer loss to train with: speed, memory and correctness of each, on realistic shapes.",
    spec=LossSpec,
    run=loss,
    results=loss_results,
    document=loss_document,
    charts=lazily("stopwav.studies.loss.charts", "loss_charts"),
    definitions=DEFINITIONS,
    pieces=loss_pieces,
    missing=missing_keys,
    comparable=COMPARABLE,
    example={"losses": ["torch"]},
    verb=VERB,
    forecast=forecast,
    problems=problems,
    failure_codes=("loss-", "rounds-failed"),
    followed=("loss",),
    side_by_side=False,
    series="loss",
)
