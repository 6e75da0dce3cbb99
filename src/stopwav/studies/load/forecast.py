"""How long a load run may take, and what would stop it at once."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.studies.budget import time_text
from stopwav.studies.forecast import Forecast, engine_problems
from stopwav.studies.load.plan import THOROUGH_S
from stopwav.studies.load.spec import LoadSpec


def forecast(spec: LoadSpec) -> Forecast:
    """Return the budget, or of a fixed plan the sum over its levels; that of a thorough search is not known before."""
    if spec.is_budgeted and spec.soak_s is None:
        return Forecast(spec.total_s, (f"the budget of {time_text(spec.total_s)}: less where that is enough",))
    if spec.streams is None:
        return Forecast(None, ("how many levels a search takes is not known before",))
    levels = len(spec.streams) * len(spec.targets) * (spec.rounds or 1) * (1 + spec.faults)
    level_s = (spec.soak_s or THOROUGH_S) + 20.0
    return Forecast(levels * level_s, (f"{levels} level{'' if levels == 1 else 's'} of {time_text(level_s)}",))


def problems(spec: LoadSpec) -> Iterator[tuple[str, str]]:
    """Yield what would stop a run of these settings at once."""
    yield from engine_problems("targets", spec.targets, streaming=spec.pace == "virtual", servers=True)
