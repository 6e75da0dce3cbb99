"""The Study object of `stopwav grid`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.grid.comparable import COMPARABLE
from stopwav.studies.grid.definitions import DEFINITIONS
from stopwav.studies.grid.document import grid_document
from stopwav.studies.grid.forecast import forecast, problems, speeds
from stopwav.studies.grid.results import grid_results
from stopwav.studies.grid.run import grid
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.grid.stored_pieces import grid_pieces, missing_keys
from stopwav.studies.grid.verb import VERB
from stopwav.studies.grid.verdicts import grid_verdicts
from stopwav.studies.plan.speechbrain_recipe import expand_recipe, recipe_note
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="grid",
    question="Is it real-time, and does it fit: real-time factor and peak memory over duration × batch size.",
    spec=GridSpec,
    run=grid,
    results=grid_results,
    document=grid_document,
    charts=lazily("stopwav.studies.grid.charts", "grid_charts"),
    definitions=DEFINITIONS,
    pieces=grid_pieces,
    missing=missing_keys,
    extras={"verdicts": lambda run: grid_verdicts(run.record)},
    example={"engines": ["pocketsphinx"]},
    verb=VERB,
    expand=expand_recipe,
    expansion_note=recipe_note,
    forecast=forecast,
    speeds=speeds,
    problems=problems,
    comparable=COMPARABLE,
    failure_codes=("cell-", "rounds-failed"),
    skip_codes=("triangle", "budget"),
    followed=("cell",),
    series="grid",
)
