"""The keys of a comparison: those its pieces may have, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.record import Piece, Record
from stopwav.studies.compare.pieces import METER_LOG, METERS, length_place
from stopwav.studies.compare.spec import CompareSpec, energy_rounds, round_inputs
from stopwav.studies.corpus_header import engine_names
from stopwav.studies.piece_keys import ANY_COUNT, ATTEMPTS, Key, KeyShape, absent_keys
from stopwav.studies.stored_fields import StoredFields, header_fields, stored_spec
from stopwav.studies.stored_rounds import missing_rounds


class StoredInputs(StoredFields):
    """The inputs of a comparison in its header, by the id of their utterances."""

    inputs: list[str]


def compare_keys(record: Record) -> list[KeyShape]:
    """Return the keys that pieces may have."""
    spec = stored_spec(CompareSpec, record.header)
    rounds, names, frames = range(spec.rounds), frozenset(engine_names(spec.engines)), frozenset(spec.frames)
    header_fields(StoredInputs, record.header.corpus, "corpus")
    return [
        KeyShape("model", (names,)),
        KeyShape("operations", (names, frames)),
        KeyShape("length", (rounds, names, frames, ATTEMPTS)),
        KeyShape("load", (rounds, names, ANY_COUNT)),
        KeyShape("sample", (rounds, names, range(spec.samples))),
        KeyShape(str(METERS[0])),
        KeyShape("energy", (rounds, names, frames)),
        KeyShape(METER_LOG),
        KeyShape(METER_LOG, (ANY_COUNT,)),
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield what the run lacks of each engine: its size, its lengths, its inputs and its energy.

    Of an engine that did not load to be described, nothing more is planned.
    """
    spec = stored_spec(CompareSpec, record.header)
    names = engine_names(spec.engines)
    yield from absent_keys(record, (("model", name) for name in names))
    present = [name for name in names if not _failed_to_load(record.find(("model", name)))]
    for name in present:
        yield from _missing_operations(record, spec, name)
    for index in range(spec.rounds if present else 0):
        for name in present:
            for frames in spec.frames:
                yield from missing_rounds(record, length_place(name, frames), index)
            yield from absent_keys(record, (("sample", index, name, place) for place in round_inputs(spec, index)))
    if spec.energy:
        yield from _missing_energy(record, spec, present)


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
    """The energy of each length, where there is a meter."""
    meters = record.find(tuple(METERS))
    if meters is None:
        yield tuple(METERS)
    elif spec.meter_csv is not None or meters.data.get("source") is not None:
        for index in range(energy_rounds(spec)):
            yield from absent_keys(
                record, (("energy", index, name, frames) for name in names for frames in spec.frames)
            )
