"""How long a run of a plan may take, and what that guess is based on; and what would stop it at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stopwav.errors import StopwavError
from stopwav.studies.plan.plan_file import Cell
from stopwav.studies.study import STUDIES, find


@dataclass(frozen=True)
class Forecast:
    """How long a run may take (`None` where nothing is known), on what basis, and what would stop it at once."""

    seconds: float | None
    basis: tuple[str, ...]
    problems: tuple[str, ...] = ()


def forecast(cell: Cell) -> Forecast:
    """The forecast of one run; its engines are looked up and its audio is opened, and nothing is measured."""
    problems = [*_engine_problems(cell), *_loss_problems(cell)]
    guess = STUDIES[cell.study].guess
    if guess is None:
        return Forecast(None, (f"no estimate for {cell.study}",), tuple(problems))
    try:
        seconds, basis = find(guess)(cell.settings)
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
    from stopwav.studies.grid.run import engine_of

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
