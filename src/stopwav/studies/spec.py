"""What every study begins with: a spec that was checked, where its run goes, and what its header says of today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stopwav.errors import StopwavError
from stopwav.record import Header, now
from stopwav.studies.catalogue import flag_of

DEFAULT_FOLDER = Path("stopwav-runs")

# What is being done, how much of it is finished, and of how much.
Progress = Callable[[str, int, int], None]

Spec = TypeVar("Spec", bound=BaseModel)


def checked(model: type[Spec], /, **fields: Any) -> Spec:
    """The spec, or an error that names the option with a wrong value."""
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        message = said(first)
        if not first["loc"]:  # settings that do not go together; the message names them
            raise StopwavError(message) from error
        # Of a list, what is wrong is the item, which is the input.
        raise StopwavError(f"--{flag_of(str(first['loc'][0]))} {first['input']!r}: {message}") from error


def said(error: Mapping[str, Any]) -> str:
    """What pydantic found wrong with a value, in the house's words."""
    if error["type"] == "too_short":
        return "should have one value at least"
    return " ".join(error["msg"].removeprefix("Value error, ").replace("Input should", "should").split())


def header_of(study: str, spec: BaseModel, **more: Any) -> Header:
    """The header of a run that starts now, on this machine; `more` is what the study itself has to say."""
    from stopwav import __version__
    from stopwav.measure.health import health
    from stopwav.measure.machine import describe

    return Header(
        stopwav=__version__,
        study=study,
        started=now(),
        spec=spec.model_dump(),
        machine=describe().as_dict(),
        warnings=[{"code": caution.code, "message": caution.message} for caution in health()],
        **more,
    )
