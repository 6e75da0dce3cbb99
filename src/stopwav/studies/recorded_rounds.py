"""Rounds of workloads in a run file: what is there is not measured again, what is missing is recorded at once."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.measure.plan import Plan, Workload
from stopwav.measure.rounds import Round, interleave_rounds, measure
from stopwav.record import Record
from stopwav.studies.grid_pieces import RoundPlace, round_to_piece
from stopwav.studies.resumption import as_written


def take_round(
    record: Record, place: RoundPlace, index: int, workload: Workload, plan: Plan, device: str = "cpu"
) -> None:
    """Measure one round, as far as it is not in the record, and record it at once."""
    had = _had(record, place, index)
    measure(
        workload, plan, device=device, only=[index], previous_rounds=had, on_round=lambda one: _keep(record, place, one)
    )


def take_round_in_turn(
    record: Record,
    places: Sequence[RoundPlace],
    index: int,
    workloads: Sequence[Workload],
    plan: Plan,
    devices: Sequence[str],
) -> None:
    """Measure one round of each workload in its turn, as far as it is not in the record, and record it at once."""
    had = [_had(record, place, index) for place in places]

    def keep(which: int, one: Round) -> None:
        _keep(record, places[which], one)

    interleave_rounds(workloads, plan, devices=devices, only=[index], previous_rounds=had, on_round=keep)


def _had(record: Record, place: RoundPlace, index: int) -> list[Round]:
    """The rounds that are there, and this one too where it is not to be tried: it is then recorded as skipped."""
    with as_written(record, f"a round of {place.kind} {place.parts}"):
        had = place.rounds(record)
    doom = "" if any(one.index == index for one in had) else _doom_of(had)
    if doom:
        had.append(Round(index, "skipped", doom))
        _keep(record, place, had[-1])
    return had


def _keep(record: Record, place: RoundPlace, one: Round) -> None:
    attempt = sum(earlier.index == one.index for earlier in place.rounds(record))
    record.append(round_to_piece(place.key(one.index, attempt), one))


def _doom_of(rounds: Sequence[Round]) -> str:
    """Why no further round is tried; empty where one is.

    What ran out of memory or time would only do so again, and a model that is not there would be looked for in every
    round of every workload.
    """
    for number, one in enumerate(rounds):
        if one.status in ("oom", "timeout") or (one.status == "error" and number == 0):
            return f"not tried again after round {one.index}: {one.message}"
    return ""
