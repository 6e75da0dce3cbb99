"""The pieces of a load run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from stopwav.record import Record
from stopwav.studies.budget import SPENT_KIND, possible_rounds
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.piece_kinds import ANY_COUNT, Key, PieceKind, absent_keys
from stopwav.studies.stored_fields import Count, Seconds, StoredEngine, StoredFields, StoredList, stored_spec

# Why a session failed: a code and a message.
StoredFailure = Annotated[StoredList[str], Field(min_length=2, max_length=2)]
# A look at the server: time, processor time, memory, GPU memory and use of the GPU.
StoredLook = Annotated[StoredList[float | None], Field(min_length=5, max_length=5)]


class StoredTarget(StoredFields):
    """The description of a target."""

    engine: StoredEngine


class StoredFault(StoredFields):
    """A faulty session."""

    kind: str
    ended: str


class StoredLevelEnergy(StoredFields):
    """The energy of the steady part."""

    joules: dict[str, Seconds]
    window_s: Seconds
    note: str

    @model_validator(mode="after")
    def _over_time(self) -> StoredLevelEnergy:
        if self.joules and not self.window_s:
            raise ValueError("joules without a window")
        return self


class StoredSession(StoredFields):
    """A session of a level; its trace is checked where it is read."""

    utterance: str
    begin_s: float
    part: Literal["ramp", "steady", "tail"]
    over: bool
    failure: StoredFailure | None
    ready_s: float | None = None
    held_s: Seconds = 0.0
    # Which of the client processes it was of.
    client: Count = 0
    trace: dict[str, Any] = Field(default={})


class StoredClock(StoredFields):
    """By how much the clock of a client on another machine was ahead of the driver's, and the round trip behind it."""

    offset_s: float
    round_trip_s: Seconds


class StoredLevel(StoredFields):
    """A round of a level."""

    target: StoredTarget
    ramp_s: Seconds
    steady_s: Seconds
    ended_s: Seconds
    prime_s: Seconds = 0.0
    server_end: str = ""
    processors: StoredList[Seconds | None]
    # By client, where they were on machines of a cluster.
    clocks: StoredList[StoredClock] = Field(default=[])
    sessions: StoredList[StoredSession]
    faults: StoredList[StoredFault]
    energy: StoredLevelEnergy | None = None
    looks: StoredList[StoredLook]


def load_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(LoadSpec, record.header)
    rounds = possible_rounds(None)
    names = frozenset(spec.names)
    levels = ANY_COUNT if spec.streams is None else frozenset(spec.streams)
    return [PieceKind("level", (rounds, names, levels, range(2)), StoredLevel), SPENT_KIND]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield the levels that the run lacks: of a plan all of them, of a search the first of each target."""
    spec = stored_spec(LoadSpec, record.header)
    if spec.streams is None:
        measured = {key[2] for key in record.keys if key[0] == "level"}
        return (("level", 0, name, 1, 0) for name in spec.names if name not in measured)
    planned = (
        ("level", index, name, streams, faulty)
        for index in range(spec.rounds or 1)
        for name in spec.names
        for streams in spec.streams
        for faulty in range(1 + spec.faults)
    )
    return absent_keys(record, planned)
