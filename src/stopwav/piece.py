"""A piece of a run: one line of its file, whose observations are read when they are asked for."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import from_json

from stopwav.errors import Status, StopwavError
from stopwav.json_rows import parse_json

# The key of a line after which the observations come. A quote inside of a string is escaped, so this is in none.
_DATA = b',"data":'
_STATUSES = get_args(Status)


class Ran(BaseModel):
    """Where and when a piece was measured that this machine had measured on another.

    The machine is its kind and a number of its own; the seconds are those of its clock of the day.
    """

    machine: str
    begun_s: float
    ended_s: float


class _Line(BaseModel):
    """A line of a piece, without its observations."""

    kind: Literal["piece"]
    key: list[str | int] = Field(min_length=1)
    status: Status
    message: str = ""
    last_words: str = ""
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where the line of a piece is in a file."""

    path: Path
    number: int
    start_bytes: int
    length_bytes: int

    def read(self, descriptor: int | None = None) -> dict[str, Any]:
        """Return the observations in the line, by way of the open file where there is one."""
        try:
            if descriptor is not None:
                line = os.pread(descriptor, self.length_bytes, self.start_bytes)
            else:
                with self.path.open("rb", buffering=0) as file:
                    line = os.pread(file.fileno(), self.length_bytes, self.start_bytes)
        except OSError as error:
            raise StopwavError(f"cannot read the run file {self.path}: {error.strerror}") from error
        data = _parse_line(self.path, self.number, line).get("data", {})
        if not isinstance(data, dict):
            raise _not_a_piece(self.path, self.number, "its data are not an object")
        return data


class Piece:
    """One finished piece of work: its key, how it ended, and the raw observations.

    The observations of a piece in a file are read when `data` is first used, and kept from then on.
    """

    # A run may have a million of them.
    __slots__ = ("_data", "_place", "last_words", "message", "parts", "ran", "status")

    def __init__(
        self,
        key: Sequence[str | int],
        status: Status,
        message: str = "",
        last_words: str = "",
        data: Mapping[str, Any] | None = None,
        place: LinePlace | None = None,
        ran: Ran | None = None,
    ) -> None:
        # Of the key, as a run finds the piece by it.
        self.parts: tuple[str | int, ...] = tuple(key)
        self.status: Status = status
        self.message = message
        self.last_words = last_words
        self.ran = ran
        self._place = place
        self._data: dict[str, Any] | None = None if place is not None else dict(data or {})

    @property
    def key(self) -> list[str | int]:
        """The key, as the file holds it."""
        return list(self.parts)

    @property
    def data(self) -> dict[str, Any]:
        """The raw observations."""
        if self._data is None:
            self._data = self.read()
        return self._data

    def read(self, descriptor: int | None = None) -> dict[str, Any]:
        """Return the raw observations without keeping them: those of all streams of a corpus may not fit in memory.

        Who reads many pieces has the file open, and says so.
        """
        if self._data is not None:
            return self._data
        assert self._place is not None
        return self._place.read(descriptor)

    @property
    def machine(self) -> str:
        """The machine of a cluster on which it was measured; "" where that is the one of the header."""
        return "" if self.ran is None else self.ran.machine

    def stored(self, place: LinePlace) -> Piece:
        """Return the piece as a file has it: a run of days must not fill the memory with its observations."""
        return Piece(self.parts, self.status, self.message, self.last_words, place=place, ran=self.ran)

    @property
    def line(self) -> int | None:
        """The line of the file that holds the piece; None where it is in no file."""
        return None if self._place is None else self._place.number

    @property
    def where(self) -> str:
        """The file and line of the piece, or its key where it is in no file, for error messages."""
        return f"piece {self.key}" if self._place is None else f"{self._place.path}:{self._place.number}"

    def to_json(self) -> dict[str, Any]:
        """Return the piece as a line of the file holds it."""
        return {
            "kind": "piece",
            "key": self.key,
            "status": self.status,
            "message": self.message,
            "last_words": self.last_words,
            **({} if self.ran is None else {"ran": self.ran.model_dump()}),
            "data": self.data,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Piece) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def check_file(path: Path) -> None:
    """Raise for what is no regular file: a pipe would be waited for, and a device read without end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StopwavError(f"cannot read the run file {path}: {reason}") from error
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise StopwavError(
            f"cannot read the run file {path}: it is {kinds.get(stat.S_IFMT(mode), 'a device')}; name a run file"
        )


def parse_envelope(path: Path, number: int, line: bytes, *, whole: bool) -> dict[str, Any]:
    """Return the fields of a line without the observations, which are most of it and come last."""
    end = -1 if whole else line.find(_DATA)
    if end > 0:
        try:
            fields = from_json(line[:end] + b"}")
            if "key" in fields:
                return dict(fields)
        except (ValueError, TypeError):  # not as we write it
            pass
    return _parse_line(path, number, line)


def _parse_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise _not_a_piece(path, number, str(error)) from error
    if not isinstance(fields, dict):
        raise _not_a_piece(path, number, "not an object")
    return fields


def piece_at(place: LinePlace, fields: dict[str, Any], names: dict[str, str]) -> Piece:
    """Return the piece of a line, from its fields without the observations.

    `names` holds the names in keys so far: an utterance is in the keys of many pieces, and its id once in memory.
    """
    if _is_as_written(fields) and "ran" not in fields:
        key = tuple(names.setdefault(part, part) if isinstance(part, str) else part for part in fields["key"])
        return Piece(key, fields["status"], fields.get("message", ""), fields.get("last_words", ""), place=place)
    try:
        line = _Line.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise _not_a_piece(place.path, place.number, f"{field}: {first['msg']}") from error
    return Piece(line.key, line.status, line.message, line.last_words, place=place, ran=line.ran)


def _is_as_written(fields: dict[str, Any]) -> bool:
    """Whether the fields are those of a piece beyond doubt: to validate them takes as long as to read them."""
    key = fields.get("key")
    texts = (fields.get("message", ""), fields.get("last_words", ""))
    return (
        fields.get("kind") == "piece"
        and type(key) is list
        and len(key) > 0
        and all(type(part) is str or type(part) is int for part in key)
        and fields.get("status") in _STATUSES
        and all(type(text) is str for text in texts)
    )


def _not_a_piece(path: Path, number: int, reason: str) -> StopwavError:
    reason = re.sub(r"\s+", " ", reason)[:120]
    return StopwavError(f"{path}:{number}: not a piece of a run ({reason}); remove that line")
