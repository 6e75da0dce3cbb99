"""How long a command may take, said on standard error before it starts where that is minutes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from stopwav.record import Record

P = ParamSpec("P")

# Below that people wait without asking.
LONG_S = 180.0

# The flags that make a run shorter, by study.
_SHORTER = {
    "compare": "--quick, or fewer --rounds, --samples or --frames",
    "grid": "--quick, or fewer --rounds, --durations or --batch-sizes",
}


def with_forecast(run: Callable[P, Record]) -> Callable[P, Record]:
    """The function of a study, which first says how long it may take and what would shorten it."""
    signature = inspect.signature(run)

    @wraps(run)
    def told(*args: P.args, **kwargs: P.kwargs) -> Record:
        line = _line(run.__name__, signature.bind(*args, **kwargs).arguments)
        if line is not None:
            print(line, file=sys.stderr)
        return run(*args, **kwargs)

    return told


def about(seconds: float | None) -> str:
    """A time as a person says it: no more digits than a guess has."""
    if seconds is None:
        return "time unknown"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _line(study: str, arguments: Mapping[str, Any]) -> str | None:
    """The line of a run; None where it is short, where nothing is known, or where a part of it is done already."""
    from stopwav.studies.forecast import forecast
    from stopwav.studies.plan_file import Cell

    if arguments.get("resume"):
        return None
    settings = {name: str(one) if isinstance(one, Path) else one for name, one in arguments.items()}
    settings.pop("progress", None)
    try:
        guess = forecast(Cell(study, "", settings, dict.fromkeys(settings, "")))
    except Exception:  # a guess never stops a run; what is wrong with its settings the study itself says
        return None
    if guess.seconds is None or guess.seconds < LONG_S or guess.problems:
        return None
    # What comes first says what is to be done; the rest, how fast that will go.
    speed = "; ".join(guess.basis[1:])
    return f"stopwav: {about(guess.seconds)} at a guess ({speed}); for less: {_SHORTER[study]}"
