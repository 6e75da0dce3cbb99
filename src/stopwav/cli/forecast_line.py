"""How long a command may take, printed before it starts where that is minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stopwav.studies.study import Study

# Below that people wait without asking.
LONG_S = 180.0


def about(seconds: float | None) -> str:
    """Return a time as a person says it: no more digits than an estimate has."""
    if seconds is None:
        return "time unknown"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def forecast_line(study: Study, settings: Mapping[str, Any]) -> str | None:
    """Return the line about a run; None where it is short or where nothing is known."""
    from stopwav.studies.spec import checked

    if study.forecast is None:
        return None
    try:
        spec = checked(study.spec, **settings)
        estimate, stopped = study.forecast(spec), any(True for _ in study.problems(spec))
    except Exception:  # an estimate never stops a run; what is wrong with its settings the study itself says
        return None
    if estimate.seconds is None or estimate.seconds < LONG_S or stopped:
        return None
    # What comes first says what is to be done; the rest, how fast that will go.
    speed = "; ".join(estimate.basis[1:])
    time = about(estimate.seconds).removeprefix("about ")
    return f"stopwav: estimated {time} ({speed}); for less: {study.verb.shorter}"
