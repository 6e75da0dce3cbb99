"""The pieces of a comparison in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.budget import SPENT_KIND, planned_rounds, possible_rounds
from stopwav.studies.compare.pieces import METER_LOG, METERS, length_place
from stopwav.studies.compare.spec import CompareSpec, energy_rounds, round_inputs
from stopwav.studies.engine_names import engine_names
from stopwav.studies.piece_kinds import ANY_COUNT, ATTEMPTS, Key, PieceKind, absent_keys
from stopwav.studies.stored_fields import (
    Count,
    PositiveSeconds,
    Seconds,
    StoredEngine,
    StoredFields,
    StoredList,
    StoredLoad,
    WrongValue,
    brief,
    header_fields,
    key_text,
    stored_spec,
)
from stopwav.studies.stored_rounds import StoredRound, missing_rounds


class StoredInputs(StoredFields):
    """The inputs of a comparison in its header, by the id of their utterances."""

    inputs: StoredList[str]


class StoredModule(StoredFields):
    """The parameters of a network, or of a part of it."""

    parameters: Count
    trainable: Count
    bytes: Count


class StoredPart(StoredModule):
    """The parameters of a part of a network."""

    name: str


class StoredTensor(StoredFields):
    """A tensor that several modules share."""

    names: StoredList[str]


class StoredNetwork(StoredModule):
    """The parameters of a network, in total and by module."""

    modules: StoredList[StoredPart]
    shared: StoredList[StoredTensor]


class StoredModel(StoredFields):
    """The description of an engine, and the parameters of its network where it has one."""

    engine: StoredEngine
    parameters: StoredNetwork | None


class StoredOperations(StoredFields):
    """The multiply-adds of an input, or why they were not counted."""

    multiply_adds: Count | None
    reason: str = ""
    modules: dict[str, Count] = Field(default={})


class StoredInput(StoredFields):
    """The utterance of a sample."""

    id: str


class StoredSample(StoredInput):
    """One input that was transcribed."""

    seconds: PositiveSeconds
    device_s: Seconds | None = None
    audio_s: PositiveSeconds
    text: str
    emitted_tokens: Count | None


class StoredWindow(StoredFields):
    """The energy of a window."""

    begin_s: float
    seconds: PositiveSeconds
    iterations: Annotated[int, Field(gt=0)]
    joules: dict[str, float]
    missing: dict[str, str] = Field(default={})
    sampled_joules: dict[str, float] = Field(default={})
    unsampled: dict[str, str] = Field(default={})
    samples: Count = 0
    longest_gap_s: Seconds | None = None


class StoredEnergy(StoredFields):
    """The windows of a length."""

    source: str
    tick_s: Seconds
    whole: StoredList[str]
    idle: StoredWindow
    windows: Annotated[StoredList[StoredWindow], Field(min_length=1)]
    sampled_parts: StoredList[str] = Field(default=[])


class StoredResolution(StoredFields):
    """The resolution of a counter."""

    step_j: Seconds | None
    interval_s: Seconds | None
    note: str = ""


class StoredMeters(StoredFields):
    """The meters of the machine."""

    source: str | None
    missing: StoredList[str]
    grains: dict[str, StoredResolution] = Field(default={})


class StoredReadings(StoredFields):
    """Readings of an external meter."""

    times_s: StoredList[float]
    watts: StoredList[float]
    source: str = ""
    fault: str = ""

    @model_validator(mode="after")
    def _pairs(self) -> StoredReadings:
        if len(self.times_s) != len(self.watts):
            raise ValueError(f"times_s has {len(self.times_s)} values, and watts has {len(self.watts)}")
        return self


def compare_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(CompareSpec, record.header)
    rounds, names, frames = possible_rounds(spec.rounds), frozenset(engine_names(spec.engines)), frozenset(spec.frames)
    _check_inputs(record, spec)
    return [
        PieceKind("model", (names,), StoredModel),
        PieceKind("operations", (names, frames), StoredOperations),
        PieceKind("length", (rounds, names, frames, ATTEMPTS), StoredRound),
        PieceKind("load", (rounds, names, ANY_COUNT), StoredLoad),
        PieceKind("sample", (rounds, names, range(spec.samples)), StoredSample, StoredInput),
        PieceKind(str(METERS[0]), (), StoredMeters),
        PieceKind("energy", (rounds, names, frames), StoredEnergy),
        PieceKind(METER_LOG, (), StoredReadings),
        PieceKind(METER_LOG, (ANY_COUNT,), StoredReadings),
        SPENT_KIND,
    ]


def _check_inputs(record: Record, spec: CompareSpec) -> None:
    """Raise for inputs that are not those of the settings, or that name no utterance; and for samples of others."""
    corpus = record.header.corpus
    inputs = header_fields(StoredInputs, corpus, "corpus").inputs
    known = {utterance["id"] for utterance in corpus.get("utterances", ())}
    unknown = next((name for name in inputs if name not in known), None)
    if unknown is not None:
        raise WrongValue(f"corpus of the header: inputs has {brief(unknown)}, which is none of its utterances")
    if len(inputs) != spec.samples:
        raise WrongValue(f"corpus of the header: inputs has {len(inputs)} ids, and spec.samples is {spec.samples}")
    places = dict(enumerate(inputs))
    with record.opened() as descriptor:
        for piece in record.pieces:
            if piece.parts[0] != "sample" or piece.parts[-1] not in places:
                continue
            own, name = piece.read(descriptor).get("id"), places[int(piece.parts[-1])]
            if own not in (None, name):
                fault = f"id is {brief(own)}, and input {piece.parts[-1]} of the run is {brief(name)}"
                raise WrongValue(f"piece {key_text(piece.key)}: {fault}", piece.key)


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield what the run lacks of each engine: its size, its lengths, its inputs and its energy.

    Of an engine that did not load to be described, nothing more is planned.
    """
    spec = stored_spec(CompareSpec, record.header)
    names = engine_names(spec.engines)
    yield from absent_keys(record, (("model", name) for name in names))
    present = [name for name in names if not _failed_to_load(record.find(("model", name)))]
    for index in planned_rounds(spec.rounds) if present else ():
        for name in present:
            for frames in spec.frames:
                place = length_place(name, frames)
                if spec.is_budgeted:  # there may be no time to repeat a throttled round
                    yield from absent_keys(record, [place.key(index, 0)])
                else:
                    yield from missing_rounds(record, place, index)
    yield from _missing_samples(record, spec, present)
    # A run from before the plan had a version may lack these.
    if record.header.plan_version >= 1:
        for name in present:
            yield from _missing_operations(record, spec, name)
        if spec.energy:
            yield from _missing_energy(record, spec, present)


def _missing_samples(record: Record, spec: CompareSpec, names: Sequence[str]) -> Iterator[Key]:
    """The inputs that are not transcribed yet; without a version of the plan, an engine may have none at all."""
    sampled = {key[2] for key in record.keys if key[0] == "sample"}
    planned = [name for name in names if name in sampled or record.header.plan_version >= 1]
    for index in planned_rounds(spec.rounds) if planned else ():
        for name in planned:
            yield from absent_keys(record, (("sample", index, name, place) for place in round_inputs(spec, index)))


def _missing_operations(record: Record, spec: CompareSpec, name: str) -> Iterator[Key]:
    """The lengths at which operations are not counted yet; none after one at which a new process did not load."""
    for frames in spec.frames:
        piece = record.find(("operations", name, frames))
        if piece is None:
            yield ("operations", name, frames)
        elif _failed_to_load(piece):
            return


def _failed_to_load(piece: Piece | None) -> bool:
    return piece is not None and "loaded" in piece.data


def _missing_energy(record: Record, spec: CompareSpec, names: Sequence[str]) -> Iterator[Key]:
    """The energy of each length, where there is a meter; in a budget its windows may not fit."""
    meters = record.find(tuple(METERS))
    if meters is None:
        yield tuple(METERS)
    elif spec.rounds is not None and (spec.meter_csv is not None or meters.data.get("source") is not None):
        for index in range(energy_rounds(spec)):
            yield from absent_keys(
                record, (("energy", index, name, frames) for name in names for frames in spec.frames)
            )
