"""The pieces of a latency run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import Header, Record
from stopwav.studies.budget import SPENT_KIND, planned_rounds, possible_rounds
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.piece_kinds import ANY_COUNT, Key, PieceKind, absent_keys
from stopwav.studies.stored_fields import StoredHostPeak, StoredLoad, WrongValue, stored_spec


def latency_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(LatencySpec, record.header)
    rounds, names = possible_rounds(spec.rounds), frozenset(engine_names(spec.engines))
    return [
        PieceKind("stream", (rounds, names, frozenset(_utterance_ids(record.header)))),
        PieceKind("load", (rounds, names, ANY_COUNT), StoredLoad),
        PieceKind("memory", (rounds, names), StoredHostPeak),
        SPENT_KIND,
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield the streams, and the memory passes, that the run lacks."""
    return absent_keys(record, _planned(record))


def _planned(record: Record) -> Iterator[Key]:
    spec = stored_spec(LatencySpec, record.header)
    names, utterances = engine_names(spec.engines), _utterance_ids(record.header)
    for index in planned_rounds(spec.rounds):
        for name in names:
            yield from (("stream", index, name, utterance) for utterance in utterances)
            # Before the plan had a version, memory was measured only where the process was still alive.
            if record.header.plan_version >= 1:
                yield ("memory", index, name)


def _utterance_ids(header: Header) -> list[str]:
    utterances = header.corpus.get("utterances")
    if not utterances:
        raise WrongValue("corpus of the header: utterances is missing or empty")
    return [utterance["id"] for utterance in utterances]
