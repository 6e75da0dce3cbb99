"""The keys of a step run: those its pieces may have, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import Record
from stopwav.studies.piece_keys import ANY_COUNT, Key, KeyShape, absent_keys
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.stored_fields import stored_spec


def step_keys(record: Record) -> list[KeyShape]:
    """Return the keys that pieces may have."""
    spec = stored_spec(StepSpec, record.header)
    rounds, steps = range(spec.rounds), range(spec.steps)
    return [
        KeyShape("ready", (rounds,)),
        KeyShape("step", (rounds, steps)),
        KeyShape("memory", (range(1),)),
        KeyShape("profile", (range(1),)),
        # The steps of the other processes of a distributed run.
        KeyShape("rank", (ANY_COUNT, ("step",), rounds, steps)),
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield what the run lacks of each round; a process that did not load, and a step that failed, end theirs."""
    spec = stored_spec(StepSpec, record.header)
    for index in range(spec.rounds):
        yield from _missing_in_round(record, spec, index)


def _missing_in_round(record: Record, spec: StepSpec, index: int) -> Iterator[Key]:
    ready = record.find(("ready", index))
    if ready is None:
        yield ("ready", index)
    elif ready.status != "ok":
        return
    for number in range(spec.steps):
        piece = record.find(("step", index, number))
        if piece is None:
            yield ("step", index, number)
        elif piece.status != "ok":
            return
    if index == 0:
        passes = ["memory", *(["profile"] if spec.profile else [])]
        yield from absent_keys(record, ((name, 0) for name in passes))
