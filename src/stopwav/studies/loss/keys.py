"""The keys of a loss run: those its pieces may have, and those of its plan that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import Record
from stopwav.studies.frontier import LARGEST_BATCH, next_batch
from stopwav.studies.loss.batch_sets import batch_sets
from stopwav.studies.loss.largest_batch import largest_of
from stopwav.studies.loss.rounds import step_key
from stopwav.studies.loss.spec import BATCH_SIZE, LossSpec
from stopwav.studies.piece_keys import ANY_COUNT, ATTEMPTS, Key, KeyShape
from stopwav.studies.stored_fields import stored_spec


def loss_keys(record: Record) -> list[KeyShape]:
    """Return the keys that pieces may have."""
    spec = stored_spec(LossSpec, record.header)
    losses, sets = frozenset(spec.losses), batch_sets(record.header)
    labels = frozenset(batch_set.setting.label for batch_set in sets)
    return [
        KeyShape("absent", (losses,)),
        KeyShape("check", (losses,)),
        *(
            KeyShape(
                "step",
                (range(spec.rounds), losses, (batch_set.setting.label,), range(len(batch_set.batches)), ATTEMPTS),
            )
            for batch_set in sets
        ),
        KeyShape("largest", (losses, frozenset(spec.vocab), ANY_COUNT)),
        KeyShape("trace", (losses, labels)),
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
    for index in range(spec.rounds if present and sets else 0):
        for batch_set in sets:
            for name in present:
                for number in range(len(batch_set.batches)):
                    yield from _missing_attempts(record, index, (name, batch_set.setting.label, number))
    if spec.largest_batch:
        most = min(LARGEST_BATCH, int(record.header.corpus["count"]))
        first = min((spec.batch_size or [BATCH_SIZE])[0], most)
        for name in present:
            for vocab in spec.vocab:
                size = next_batch(largest_of(record, name, vocab), first, most)
                if size is not None:
                    yield ("largest", name, vocab, size)


def _missing_attempts(record: Record, index: int, place: tuple[str, str, int]) -> Iterator[Key]:
    """The round of a batch, and its repetition where the processor was throttled."""
    first, again = step_key(index, place, 0), step_key(index, place, 1)
    piece = record.find(first)
    if piece is None:
        yield first
    elif piece.data.get("throttled") and again not in record:
        yield again
