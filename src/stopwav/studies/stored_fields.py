"""The fields of a run file, checked as they are read: what is wrong with one is said in one line, with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.studies.spec import Spec, format_validation_error

Seconds = Annotated[float, Field(ge=0)]
PositiveSeconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]

T = TypeVar("T")
# A run that is being measured holds tuples where its file has lists.
StoredList = Annotated[list[T], Field(strict=False)]

# What reading a piece raises where something is wrong that no check looks for.
UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    StopIteration,
    RecursionError,
    MemoryError,
)


class StoredFields(BaseModel, strict=True, allow_inf_nan=False):
    """Fields of a run file with their types and ranges; keys that are not declared are ignored."""


class StoredEngine(StoredFields, extra="allow"):
    """The description of an engine, as far as results depend on it; the oldest runs have less."""

    name: str = ""
    version: str = ""
    device: str = "cpu"
    precision: str = ""
    language: str = ""
    notes: StoredList[str] = Field(default=[])
    untrained: bool = False
    data_dependent: bool = True
    parameters: Count | None = None
    sample_rate_hz: Count = 0
    chunk_s: Seconds = 0.0
    lookahead_s: Seconds = 0.0


# A code and a message.
StoredCaution = Annotated[StoredList[str], Field(min_length=2, max_length=2)]


class StoredLoad(StoredFields):
    """A process that loaded an engine and warmed it up; the oldest runs do not say how long that took."""

    engine: StoredEngine
    load_s: Seconds
    warmup_s: StoredList[Seconds] = Field(default=[])
    cautions: StoredList[StoredCaution]


class StoredHostPeak(StoredFields):
    """The peak memory of a pass."""

    peak_bytes: Bytes
    baseline_bytes: Bytes
    method: str = ""
    note: str | None = None


Fields = TypeVar("Fields", bound=StoredFields)


class WrongValue(ValueError):
    """A value that stopwav does not write, and the key of the piece that holds it; None for the header."""

    def __init__(self, message: str, key: Sequence[str | int] | None = None) -> None:
        super().__init__(message)
        self.key = key


def piece_fields(model: type[Fields], piece: Piece, descriptor: int | None = None) -> Fields:
    """Return the data of a piece, by way of the open file where there is one; a wrong value is an error that names it.

    The data are not kept: those of all samples of a corpus would take gigabytes.
    """
    try:
        return model.model_validate(piece.read(descriptor))
    except ValidationError as error:
        raise WrongValue(f"piece {key_text(piece.key)}: {_first_fault(error)}", piece.key) from error


def header_fields(model: type[Fields], fields: object, place: str, inside: str = "") -> Fields:
    """Return fields of the header, such as its `corpus`, or of an object inside of them, such as `utterances.3.`.

    A wrong value is an error that names the place.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise WrongValue(f"{place} of the header: {inside}{_first_fault(error)}") from error


def stored_spec(model: type[Spec], header: Header) -> Spec:
    """Return the settings of a run; a wrong value is an error that names the setting."""
    try:
        return model.model_validate(header.spec)
    except ValidationError as error:
        raise WrongValue(f"spec of the header: {_first_fault(error)}") from error


def key_text(key: Sequence[str | int]) -> str:
    """Return a key as it stands in the file."""
    text = json.dumps(list(key))
    return text if len(text) <= 120 else f"{text[:119]}…"


def _first_fault(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{place} is missing"
    return f"{place} is {brief(first['input'])}: {format_validation_error(first)}"


def brief(value: object) -> str:
    """Return a value as an error shows it, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists in lists
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"


@contextmanager
def readable(record: Record, what: str, then: str = "measure again") -> Iterator[None]:
    """Turn what goes wrong in reading a run that stopwav did not write so into an error in one line."""
    try:
        # A number so large that sums of it have no value is an error, where NumPy would print a warning and go on.
        with np.errstate(over="raise"):
            yield
    except WrongValue as error:
        raise StopwavError(f"{place_of(record, error.key)}: {error}; {then}") from error
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
        raise StopwavError(f"{record.path}: cannot read the {what} ({reason}); {then}") from error


def place_of(record: Record, key: Sequence[str | int] | None) -> str:
    """Return the file, with the line that holds the piece of a key or, without one, the header."""
    piece = None if key is None else record.find(tuple(key))
    number = 1 if key is None else None if piece is None else piece.line
    return str(record.path) if number is None else f"{record.path}:{number}"


def end_line(record: Record) -> str:
    """Return the file, with its line that says that the run is complete."""
    return str(record.path) if record.end_line is None else f"{record.path}:{record.end_line}"
