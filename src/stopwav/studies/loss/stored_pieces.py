"""The pieces of a loss run in its file: their keys and fields, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from stopwav.record import Record
from stopwav.studies.budget import SPENT_KIND, planned_rounds, possible_rounds
from stopwav.studies.loss.batch_sets import BatchSet, batch_sets
from stopwav.studies.loss.largest_batch import next_size
from stopwav.studies.loss.rounds import step_key
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.piece_kinds import ANY_COUNT, ATTEMPTS, Key, PieceKind
from stopwav.studies.stored_fields import (
    Count,
    Seconds,
    StoredCaution,
    StoredFields,
    StoredList,
    header_fields,
    stored_spec,
)
from stopwav.studies.stored_rounds import StoredRound


class StoredAbsence(StoredFields):
    """Why a loss cannot take part."""

    code: str


class StoredCheck(StoredFields):
    """A loss beside the oracle: relative errors of its value and of each gradient."""

    deviations: Annotated[dict[str, Annotated[float, Field(ge=0)]], Field(min_length=2)]
    deterministic: bool
    gap: float | None
    version: str
    precision: Literal["float64", "float32", "tf32", "float16", "bfloat16"]
    cautions: StoredList[StoredCaution] = Field(default=[])

    @model_validator(mode="after")
    def _has_value(self) -> StoredCheck:
        if "value" not in self.deviations:
            raise ValueError("deviations.value is missing")
        return self


class StoredMemoryLine(StoredFields):
    """The memory of a device over time in a trace."""

    device: str
    points: StoredList[StoredList[float]]


class StoredProfile(StoredFields):
    """The traces of a loss, and tables of them; those of older runs have none."""

    files: Annotated[StoredList[str], Field(min_length=1)]
    active: Count = 0
    asked: Count = 0
    operators: StoredList[Annotated[tuple[str, Count, Seconds, Seconds], Field(strict=False)]] = Field(default=[])
    kernels: StoredList[Annotated[tuple[str, Count, Seconds], Field(strict=False)]] = Field(default=[])
    idle_share: float | None = None
    memory: StoredMemoryLine | None = None


class StoredSetting(StoredFields):
    """The batch size and the vocabulary of a setting."""

    batch_size: Annotated[int, Field(gt=0)] | None
    vocab: Annotated[int, Field(gt=0)]


class StoredBatch(StoredFields):
    """The lengths of the utterances of a batch."""

    frames: Annotated[StoredList[Annotated[int, Field(gt=0)]], Field(min_length=1)]
    tokens: StoredList[Count]

    @model_validator(mode="after")
    def _pairs(self) -> StoredBatch:
        if len(self.frames) != len(self.tokens):
            raise ValueError(f"frames has {len(self.frames)} values, and tokens has {len(self.tokens)}")
        return self


class StoredBatchSet(StoredFields):
    """The batches of a setting."""

    setting: StoredSetting
    batches: Annotated[StoredList[StoredBatch], Field(min_length=1)]
    corpus_padding_efficiency: Seconds
    covered: Annotated[StoredList[float], Field(min_length=2, max_length=2)]
    invented: Seconds


class StoredShapes(StoredFields):
    """The shapes in the header of a loss run."""

    name: str
    count: Annotated[int, Field(gt=0)]
    settings: Annotated[StoredList[StoredBatchSet], Field(min_length=1)]


def loss_pieces(record: Record) -> list[PieceKind]:
    """Return the pieces that a run may hold."""
    spec = stored_spec(LossSpec, record.header)
    header_fields(StoredShapes, record.header.corpus, "corpus")
    losses, sets = frozenset(spec.losses), batch_sets(record.header)
    labels = frozenset(batch_set.setting.label for batch_set in sets)
    return [
        PieceKind("absent", (losses,), failed_fields=StoredAbsence),
        PieceKind("check", (losses,), StoredCheck),
        *(
            PieceKind(
                "step",
                (
                    possible_rounds(spec.rounds),
                    losses,
                    (batch_set.setting.label,),
                    range(len(batch_set.batches)),
                    ATTEMPTS,
                ),
                StoredRound,
            )
            for batch_set in sets
        ),
        PieceKind("largest", (losses, frozenset(spec.vocab), ANY_COUNT)),
        PieceKind("trace", (losses, labels), StoredProfile),
        SPENT_KIND,
    ]


def missing_keys(record: Record) -> Iterator[Key]:
    """Yield what the run lacks of each loss: its check, its batches, and the next try of the largest batch.

    Of a loss that cannot take part, nothing more is planned.
    """
    spec = stored_spec(LossSpec, record.header)
    present = [name for name in spec.losses if ("absent", name) not in record]
    for name in present:
        if ("check", name) not in record:
            yield ("check", name)
    sets = batch_sets(record.header)
    for index in planned_rounds(spec.rounds) if present and sets else ():
        for batch_set in sets:
            for name in present:
                yield from _missing_batches(record, spec, index, name, batch_set)
    # A run from before the plan had a version may lack the end of its search; one with a budget ends when that does.
    if spec.largest_batch and record.header.plan_version >= 1 and not spec.is_budgeted:
        for name in present:
            for vocab in spec.vocab:
                size = next_size(record, spec, name, vocab)
                if size is not None:
                    yield ("largest", name, vocab, size)


def _missing_batches(record: Record, spec: LossSpec, index: int, name: str, batch_set: BatchSet) -> Iterator[Key]:
    """What a round of a loss lacks: every batch, or where there is a budget, one batch at the least."""
    places = [(name, batch_set.setting.label, number) for number in range(len(batch_set.batches))]
    if spec.is_budgeted:
        if not any(step_key(index, place, 0) in record for place in places):
            yield step_key(index, places[0], 0)
        return
    for place in places:
        yield from _missing_attempts(record, index, place)


def _missing_attempts(record: Record, index: int, place: tuple[str, str, int]) -> Iterator[Key]:
    """The round of a batch, and its repetition where the processor was throttled."""
    first, again = step_key(index, place, 0), step_key(index, place, 1)
    piece = record.find(first)
    if piece is None:
        yield first
    elif piece.data.get("throttled") and again not in record:
        yield again
