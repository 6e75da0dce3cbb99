"""How long a run of a plan may take, and what that guess is based on; and what would stop it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stopwav.errors import StopwavError
from stopwav.studies.forecast_compare import guess_compare
from stopwav.studies.forecast_grid import guess_grid
from stopwav.studies.forecast_latency import guess_latency
from stopwav.studies.plan_file import Cell

# From a run's settings: seconds, and what they are based on. A study that is not here has no estimate, and says so.
_GUESSES: dict[str, Callable[[Any], tuple[float, list[str]]]] = {
    "compare": guess_compare,
    "grid": guess_grid,
    "latency": guess_latency,
}


@dataclass(frozen=True)
class Forecast:
    """How long a run may take (`None` where nothing is known), on what basis, and what would stop it at once."""

    seconds: float | None
    basis: tuple[str, ...]
    problems: tuple[str, ...] = ()


def forecast(cell: Cell) -> Forecast:
    """The forecast of one run; its engines are looked up and its audio is opened, and nothing is measured."""
    problems = [*_engine_problems(cell), *_loss_problems(cell)]
    guess = _GUESSES.get(cell.study)
    if guess is None:
        return Forecast(None, (f"no estimate for {cell.study}",), tuple(problems))
    try:
        seconds, basis = guess(cell.settings)
    except StopwavError as error:
        return Forecast(None, (), (*problems, f"{cell.where}: {error}"))
    return Forecast(seconds, tuple(basis), tuple(problems))


def _loss_problems(cell: Cell) -> Iterator[str]:
    """Losses that cannot be had: a run goes on without those that are missing, and does not start with an unknown."""
    from stopwav.losses.registry import check_name

    for name in cell.arguments.get("losses", []):
        try:
            missing = check_name(name)
        except StopwavError as error:
            yield f"{cell.places['losses']}: {error}"
        else:
            if missing:
                yield f"{cell.places['losses']}: loss {name!r} {missing}"


def _engine_problems(cell: Cell) -> Iterator[str]:
    from stopwav.engines.registry import prepare
    from stopwav.studies.grid import engine_of

    if "engine" in cell.arguments:
        try:
            prepare(engine_of(cell.settings))
        except StopwavError as error:
            yield f"{cell.places['engine']}: {error}"
    for engine in cell.arguments.get("engines", []):
        try:
            prepare(engine)
        except StopwavError as error:
            yield f"{cell.places['engines']}: {error}"
