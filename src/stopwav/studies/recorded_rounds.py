"""Rounds of a workload in a run file: what is there is not measured again, what is missing is recorded at once."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.errors import StopwavError
from stopwav.measure.plan import Plan
from stopwav.measure.rounds import Round, measure
from stopwav.measure.workload import Workload
from stopwav.record import Record
from stopwav.studies.grid_pieces import RoundPlace, round_to_piece


def take_round(
    record: Record, place: RoundPlace, index: int, workload: Workload, plan: Plan, device: str = "cpu"
) -> None:
    """Measure one round, as far as it is not in the record, and record it at once."""
    had = _had(record, place)

    def keep(one: Round) -> None:
        attempt = sum(earlier.index == index for earlier in place.rounds(record))
        record.append(round_to_piece(place.key(index, attempt), one))

    doom = None if any(one.index == index for one in had) else _doom_of(had)
    if doom:
        keep(Round(index, "skipped", doom))
    else:
        measure(workload, plan, device=device, only=[index], had=had, on_round=keep)


def _had(record: Record, place: RoundPlace) -> list[Round]:
    try:
        return place.rounds(record)
    except (LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
        raise StopwavError(
            f"{record.path}: has a round of {place.kind} {place.parts} that stopwav did not write so ({reason}); "
            "measure again without --resume"
        ) from error


def _doom_of(rounds: Sequence[Round]) -> str:
    """Why no further round is tried; empty where one is.

    What ran out of memory or time would only do so again, and a model that is not there would be looked for in every
    round of every workload.
    """
    for number, one in enumerate(rounds):
        if one.status in ("oom", "timeout") or (one.status == "error" and number == 0):
            return f"not tried again after round {one.index}: {one.message}"
    return ""
