"""The pieces that a run may hold, each kind with its keys and fields; and that a complete run holds all of its plan."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.stored_fields import StoredFields, WrongValue, brief, end_line, key_text, piece_fields

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class PieceKind:
    """One kind of piece: the values that each part of its key may have, and its data."""

    name: str
    key: tuple[Container[str | int], ...] = ()
    # The data of a piece that completed, and of one that failed; None where they are not checked.
    fields: type[StoredFields] | None = None
    failed_fields: type[StoredFields] | None = None


class AnyText:
    """A part of a key that may be any text."""

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str)


# Any count: of a restart, a batch size, the number of a process.
ANY_COUNT = range(sys.maxsize)
# A throttled round is repeated once.
ATTEMPTS = range(2)


def check_pieces(record: Record, kinds: Iterable[PieceKind]) -> None:
    """Raise for a piece that no run of these settings has: one of an unknown engine, or with a negative time."""
    by_name: dict[str | int, list[PieceKind]] = {}
    for kind in kinds:
        by_name.setdefault(kind.name, []).append(kind)
    with record.opened() as descriptor:
        for piece in record.pieces:
            key = piece.parts
            known = by_name.get(key[0], []) if key else []
            own = next((kind for kind in known if _fits(key, kind)), None)
            if own is None:
                raise WrongValue(f"piece {key_text(key)}: {_misfit(key, known)}", key)
            # The traces of streams, by far the longest, are checked where they are read.
            fields = own.fields if piece.status == "ok" else own.failed_fields
            if fields is not None:
                piece_fields(fields, piece, descriptor)


def finish_run(record: Record, missing: Iterable[Key]) -> None:
    """Mark a run as complete, unless a piece of its plan is missing: `--resume` then continues it."""
    if first_missing(missing) is None:
        record.finish()


def check_complete(record: Record, missing: Iterable[Key]) -> None:
    """Raise where a run says that it is complete and lacks a piece of its plan."""
    key = first_missing(missing) if record.complete else None
    if key is not None:
        raise StopwavError(
            f"{end_line(record)}: says that the run is complete, but piece {key_text(key)} is missing; "
            "remove this line and continue the run with --resume, or measure again"
        )


def first_missing(missing: Iterable[Key]) -> Key | None:
    """Return the first key that is missing; the rest are not looked for, as an edited header may plan any number."""
    return next(iter(missing), None)


def absent_keys(record: Record, keys: Iterable[Key]) -> Iterator[Key]:
    """Yield the keys that the run does not have."""
    return (key for key in keys if key not in record)


def _fits(key: Key, kind: PieceKind) -> bool:
    return len(key) == 1 + len(kind.key) and all(map(_is_in, key[1:], kind.key))


def _is_in(part: str | int, values: Container[str | int]) -> bool:
    # Python would look for a text in a range number by number.
    return (isinstance(part, int) or not isinstance(values, range)) and part in values


def _misfit(key: Key, kinds: Sequence[PieceKind]) -> str:
    """What is wrong with a key that is of none of the kinds of its name."""
    if not kinds:
        return "a run of this study has no such piece"
    same_length = [kind for kind in kinds if 1 + len(kind.key) == len(key)]
    if not same_length:
        return f"its key has {len(key)} parts, expected {1 + len(kinds[0].key)}"
    pairs = zip(key[1:], same_length[0].key, strict=True)
    part = next(part for part, values in pairs if not _is_in(part, values))
    return f"{brief(part)} is not in the settings of the run"
