"""The keys of the pieces of a run: which ones it may hold, and that a complete run holds all of its plan."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.stored_fields import WrongValue, brief, end_line, key_text

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class KeyShape:
    """The keys of one kind of piece: the values that each part after the kind may have."""

    kind: str
    parts: tuple[Container[str | int], ...] = ()


class AnyText:
    """A part of a key that may be any text."""

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str)


# Any count: of a restart, a batch size, the number of a process.
ANY_COUNT = range(sys.maxsize)
# A throttled round is repeated once.
ATTEMPTS = range(2)


def check_keys(record: Record, shapes: Iterable[KeyShape]) -> None:
    """Raise for a piece whose key no run of these settings has, such as one of an unknown engine."""
    by_kind: dict[str | int, list[KeyShape]] = {}
    for shape in shapes:
        by_kind.setdefault(shape.kind, []).append(shape)
    for key in record.keys:
        known = by_kind.get(key[0], []) if key else []
        if not any(_fits(key, shape) for shape in known):
            raise WrongValue(f"piece {key_text(key)}: {_misfit(key, known)}", key)


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


def _fits(key: Key, shape: KeyShape) -> bool:
    return len(key) == 1 + len(shape.parts) and all(map(_is_in, key[1:], shape.parts))


def _is_in(part: str | int, values: Container[str | int]) -> bool:
    # Python would look for a text in a range number by number.
    return (isinstance(part, int) or not isinstance(values, range)) and part in values


def _misfit(key: Key, shapes: Sequence[KeyShape]) -> str:
    """What is wrong with a key that fits none of the shapes of its kind."""
    if not shapes:
        return "a run of this study has no such piece"
    same_length = [shape for shape in shapes if 1 + len(shape.parts) == len(key)]
    if not same_length:
        return f"its key has {len(key)} parts, expected {1 + len(shapes[0].parts)}"
    pairs = zip(key[1:], same_length[0].parts, strict=True)
    part = next(part for part, values in pairs if not _is_in(part, values))
    return f"{brief(part)} is not in the settings of the run"
