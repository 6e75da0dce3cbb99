"""The pieces of a step run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from stopwav.record import Record
from stopwav.studies.budget import SPENT_KIND, planned_rounds, possible_rounds
from stopwav.studies.piece_kinds import ANY_COUNT, Key, PieceKind, absent_keys
from stopwav.studies.step.size import with_size
from stopwav.studies.step.spec import STEPS, StepSpec
from stopwav.studies.stored_fields import (
    Bytes,
    Count,
    PositiveSeconds,
    Seconds,
    StoredCaution,
    StoredFields,
    StoredList,
    stored_spec,
)

# A row, a phase, and the seconds by the wall and by the device.
StoredTime = Annotated[tuple[str, str, Seconds, Seconds | None], Field(strict=False)]
StoredLabelTime = Annotated[tuple[StoredList[str], str, Seconds, Seconds | None], Field(strict=False)]


class StoredRow(StoredFields):
    """A module that has a row of its own."""

    path: str
    kind: str
    type_name: str
    parameters: Count
    parameter_bytes: Bytes
    also: StoredList[str]
    folded: str


class StoredReady(StoredFields):
    """A process that is ready to be measured."""

    load_s: Seconds
    first_s: Seconds
    warmup_s: StoredList[Seconds]
    switch_s: Seconds
    modules: Annotated[StoredList[StoredRow], Field(min_length=1)]
    shared: dict[str, StoredList[str]]
    labels: dict[str, str]
    model: str
    compiled: bool
    cautions: StoredList[StoredCaution] = Field(default=[])


class StoredFrames(StoredFields):
    """The size of a batch; None where it does not say."""

    utterances: Count | None
    real_frames: Count | None
    padded_frames: Count | None


class StoredCleanStep(StoredFields):
    """The times of a clean step, and of its phases."""

    wall_s: PositiveSeconds
    device_s: Seconds | None
    phases: dict[str, Annotated[tuple[Seconds, Seconds | None], Field(strict=False)]]


class StoredProfiledStep(StoredFields):
    """The times of a profiled step, by row and by label."""

    wall_s: PositiveSeconds
    device_s: Seconds | None
    parts: Annotated[StoredList[StoredTime], Field(min_length=1)]
    calls: dict[str, Count]
    recomputed: StoredList[str]
    callers: dict[str, StoredList[str]]
    labels: StoredList[StoredLabelTime] = Field(default=[])
    label_calls: StoredList[Annotated[tuple[StoredList[str], Count], Field(strict=False)]] = Field(default=[])


class StoredStep(StoredFields):
    """A step, clean and profiled."""

    batch: StoredFrames
    clean: StoredCleanStep
    watched: StoredProfiledStep


class StoredPeak(StoredFields):
    """The highest moment of the memory pass."""

    row: str
    phase: str
    end_bytes: int
    peak_bytes: int


class StoredMemoryPass(StoredFields):
    """The memory of a step: sizes by row, and its timeline."""

    step: Count
    held: dict[str, int]
    held_by_label: StoredList[Annotated[tuple[StoredList[str], int], Field(strict=False)]] = Field(default=[])
    gradients: dict[str, int]
    states: dict[str, int]
    peak: StoredPeak
    baseline_bytes: int
    method: str
    moments: StoredList[Annotated[tuple[str, str, int, int], Field(strict=False)]]


class StoredOperatorTables(StoredFields):
    """The tables of a pass under the profiler."""

    file: str
    modules: StoredList[Annotated[tuple[str, str, Seconds, Count, StoredList[str]], Field(strict=False)]]
    lost: Count
    operators: StoredList[Annotated[tuple[str, Count, Seconds, Seconds], Field(strict=False)]]
    kernels: StoredList[Annotated[tuple[str, Count, Seconds], Field(strict=False)]]
    idle_share: float | None


def step_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = with_size(stored_spec(StepSpec, record.header), record.header.corpus)
    rounds, steps = possible_rounds(spec.rounds), range(spec.steps or STEPS)
    return [
        PieceKind("ready", (rounds,), StoredReady),
        PieceKind("step", (rounds, steps), StoredStep),
        PieceKind("memory", (range(1),), StoredMemoryPass),
        PieceKind("profile", (range(1),), StoredOperatorTables),
        # The steps of the other processes of a distributed run.
        PieceKind("rank", (ANY_COUNT, ("step",), rounds, steps), StoredStep),
        SPENT_KIND,
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield what the run lacks of each round; a process that did not load, and a step that failed, end theirs."""
    spec = with_size(stored_spec(StepSpec, record.header), record.header.corpus)
    for index in planned_rounds(spec.rounds):
        yield from _missing_in_round(record, spec, index)


def _missing_in_round(record: Record, spec: StepSpec, index: int) -> Iterator[Key]:
    ready = record.find(("ready", index))
    if ready is None:
        yield ("ready", index)
    elif ready.status != "ok":
        return
    pieces = [record.find(("step", index, number)) for number in range(spec.steps or STEPS)]
    for number, piece in enumerate(pieces):
        # Where there is a budget, one step is enough.
        if piece is None and not (spec.is_budgeted and any(pieces)):
            yield ("step", index, number)
        elif piece is not None and piece.status != "ok":
            return
    if index == 0:
        passes = ["memory", *(["profile"] if spec.profile else [])]
        yield from absent_keys(record, ((name, 0) for name in passes))
