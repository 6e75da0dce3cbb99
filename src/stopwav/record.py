"""The run file: append-only JSON lines. The header comes first, then one line per finished piece of work.

A line is flushed to disk before the next piece begins, so a process that is killed loses at most the piece it was
working on; an incomplete last line is dropped when the file is read. An interrupted run is resumed with the missing
pieces. Only raw observations are stored: every statistic is computed again from the file.

A run may be larger than memory. Opening it reads the keys and statuses of its pieces; the observations of a piece are
read when they are asked for.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple

from pydantic import BaseModel

from stopwav.errors import Caution, Status, StopwavError
from stopwav.json_rows import nested_from_line, nested_to_line, to_line
from stopwav.piece import LinePlace, Piece, Ran, check_file, parse_envelope, piece_at
from stopwav.stats import Estimate

# 2: the texts of a stream are stored as what changed, its chunks by column.
FORMAT = 2
# A header holds settings, the machine and what is said of the corpus; a longer first line is that of another file.
LONGEST_HEADER_BYTES = 1_000_000_000
# The list in a header that has an entry for each of a hundred thousand utterances, and what it is in.
UTTERANCES = "utterances"
ROWS = ("corpus", UTTERANCES)
# Which pieces a complete run holds: since 1, all that its plan has, those of failures included. A run from before may
# lack some, such as the memory piece of an engine whose process had died.
PLAN_VERSION = 1
# The note of a metric that has no value because it depends on texts from random weights.
UNTRAINED = "untrained"
# What shows a run knows its study, and this file knows none: it is imported when a run is shown.
_SHOWN_BY = "stopwav.studies.notebook"
# The code of a metric that has no value because no utterance has a transcript, and its note.
NO_TRANSCRIPT, WITHOUT_TRANSCRIPT = "no-transcript", "no transcript"


class Header(BaseModel):
    """The first line of a run file: the settings, the machine, the corpus and the text normaliser."""

    kind: Literal["header"] = "header"
    format: int = FORMAT
    stopwav: str
    study: str
    started: str
    spec: dict[str, Any]
    machine: dict[str, Any] = {}
    place: str = ""  # what the machine was asked to have, where it is one of a cluster
    corpus: dict[str, Any] = {}
    normaliser: dict[str, Any] = {}
    digests: dict[str, str] = {}
    warnings: list[dict[str, str]] = []
    plan_version: int = 0


@dataclass(frozen=True)
class Result:
    """One result of a study: a name, its settings, and its metrics with their intervals."""

    name: str
    params: Mapping[str, object]
    status: Status
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    warnings: tuple[Caution, ...] = ()
    # What the row is of, for code that has to tell rows apart: an engine, a cell of a grid, a length, a fit, …
    kind: str = "engine"

    def to_json(self) -> dict[str, Any]:
        """Return the result as `--json` prints it."""
        return {
            "name": self.name,
            "params": dict(self.params),
            "status": self.status,
            "metrics": {name: estimate.to_json() for name, estimate in self.metrics.items()},
            "warnings": [{"code": warning.code, "message": warning.message} for warning in self.warnings],
        }


class Record:
    """A run: the header and pieces of its file, to which at most one process appends at a time."""

    def __init__(self, path: Path, header: Header, pieces: list[Piece], *, complete: bool) -> None:
        self.path = path
        self.header = header
        self.complete = complete
        self._pieces: dict[tuple[str | int, ...], Piece] = {piece.parts: piece for piece in pieces}
        # Number of pieces that the file held when it was opened.
        self.previous_count = len(pieces)
        self._descriptor: int | None = None
        self.ran: Callable[[], Ran | None] = lambda: None  # where a piece to be appended ran, if not on this machine
        # Number of lines in the file, and the one that says that the run is complete.
        self._lines = 0
        self.end_line: int | None = None

    @property
    def pieces(self) -> list[Piece]:
        """The finished pieces, in the order in which they were finished."""
        return list(self._pieces.values())

    @contextmanager
    def opened(self) -> Iterator[int | None]:
        """Open the file to read many pieces; None where it is not there, and pieces are in memory."""
        try:
            file = self.path.open("rb", buffering=0)
        except OSError:
            yield None
            return
        with file:
            yield file.fileno()

    def load(self) -> None:
        """Read the observations of all pieces, for a run whose file is about to go."""
        for piece in self.pieces:
            piece.data  # noqa: B018

    @property
    def keys(self) -> list[tuple[str | int, ...]]:
        """The keys of the finished pieces, in the same order."""
        return list(self._pieces)

    def find(self, key: tuple[str | int, ...]) -> Piece | None:
        """Return the piece of a key; None where it is not finished."""
        return self._pieces.get(key)

    def __contains__(self, key: tuple[str | int, ...]) -> bool:
        return key in self._pieces

    @classmethod
    def create(cls, path: Path, header: Header) -> Record:
        """Create a run, open for appending. The file must not exist yet."""
        record = cls(path, header, [], complete=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            record._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
        except OSError as error:
            if os.path.exists(path):
                raise StopwavError(
                    f"{path}: exists already; choose another place with --save, or use --resume"
                ) from None
            raise StopwavError(
                f"cannot create the run file {path} ({error.strerror}); choose another folder with --save"
            ) from error
        _lock(record._descriptor, path)
        record._write(nested_to_line(header.model_dump(), *ROWS))
        return record

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read the run in a file, which may be incomplete."""
        check_file(path)
        return cls._of(path, _parse(path))

    @classmethod
    def resume(cls, path: Path) -> Record:
        """Open the run in a file for appending; an incomplete last line is cut off first."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise StopwavError(f"cannot resume {path}: it is not writable ({error.strerror})") from error
        try:
            _lock(descriptor, path)
            content = _parse(path, whole=True)
            os.ftruncate(descriptor, content.length_bytes)
        except BaseException:
            os.close(descriptor)
            raise
        record = cls._of(path, content)
        record._descriptor = descriptor
        return record

    @classmethod
    def _of(cls, path: Path, content: _Content) -> Record:
        record = cls(path, content.header, content.pieces, complete=content.end_line is not None)
        record._lines, record.end_line = content.lines, content.end_line
        return record

    def append(self, piece: Piece) -> None:
        """Add a finished piece; it is on disk when this returns."""
        key = piece.parts
        if key in self._pieces:
            raise StopwavError(f"{self.path}: piece {key} exists already")
        piece.ran = piece.ran or self.ran()
        self._pieces[key] = piece.stored(self._write(to_line(piece.to_json())))

    def finish(self) -> None:
        """Mark the run as complete."""
        if not self.complete:
            self._write(to_line({"kind": "end", "finished": now()}))
            self.complete = True

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        held = f"{len(self._pieces)} pieces, {'complete' if self.complete else 'not complete'}"
        return f"<stopwav.Record of {self.header.study}: {str(self.path)!r}, {held}>"

    def _repr_html_(self) -> str:
        """Return the tables and charts of the run's page, as Jupyter shows them."""
        return str(import_module(_SHOWN_BY).run_html(self))

    def frame(self, params: Sequence[str] = (), library: str | None = None) -> Any:
        """Return every metric of every result as a data frame, a row each: pandas, polars or pyarrow.

        `library` names one of the three; without it the first that is installed is used. Each of `params`, such as
        `duration_s` of a grid, becomes a column; a name that no result has is an error that lists the names.
        """
        return import_module(_SHOWN_BY).run_frame(self, params, library)

    def chart(self, name: str) -> Any:
        """Return a chart of the run's page as an Altair chart, on light ground; a wrong name is an error with all."""
        return import_module(_SHOWN_BY).run_chart(self, name)

    def _write(self, line: bytes) -> LinePlace:
        """Append a line, and return where it is once it is on disk."""
        if self._descriptor is None:
            raise StopwavError(f"{self.path}: this run was opened for reading only")
        data = line + b"\n"
        start_bytes, length_bytes = os.lseek(self._descriptor, 0, os.SEEK_END), len(line)
        try:
            if not (os.path.exists(self.path) and os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))):
                raise StopwavError(
                    f"{self.path}: was deleted, moved or replaced during the run; put it back and continue with "
                    "--resume, or measure again"
                )
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise StopwavError(
                f"{self.path}: cannot write ({error.strerror}); earlier measurements are kept: "
                "free some space, then continue with --resume"
            ) from error
        self._lines += 1
        return LinePlace(self.path.absolute(), self._lines, start_bytes, length_bytes)


def now() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_header(path: Path) -> Header:
    """Read the header of a run file; the rest of the file may be damaged."""
    check_file(path)
    try:
        with path.open("rb") as file:
            return _parse_header(path, _header_line(file))
    except OSError as error:
        raise StopwavError(f"cannot read the run file {path}: {error.strerror}") from error


def read_first_pieces(path: Path, limit_bytes: int) -> Record:
    """Read the header of a run file and its first pieces, as many as fit in so many bytes; the rest is not read."""
    content = _parse(path, limit_bytes=limit_bytes)
    return Record(path, content.header, content.pieces, complete=False)


def _lock(descriptor: int, path: Path) -> None:
    # The kernel releases the lock when the process ends, however it ends.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StopwavError(f"{path}: another stopwav process is writing to this run; wait for it, or stop it") from None


class _Content(NamedTuple):
    """The complete lines of a run file: how many they are, their bytes, and which one says that the run is complete."""

    header: Header
    pieces: list[Piece]
    end_line: int | None
    lines: int
    length_bytes: int


def _parse(path: Path, *, whole: bool = False, limit_bytes: int = sys.maxsize) -> _Content:
    """Return the complete lines of a run file.

    With `whole`, the observations of every piece are checked to be JSON at once. At most `limit_bytes` are read behind
    the header.
    """
    pieces: dict[tuple[str | int, ...], Piece] = {}
    names: dict[str, str] = {}
    end_line, number, absolute = None, 1, path.absolute()
    try:
        with path.open("rb") as file:
            line = _header_line(file)
            if not line.endswith(b"\n"):
                raise StopwavError(
                    f"{path}: not a stopwav run file: it has no complete line; delete it and start again"
                )
            header, start_bytes = _parse_header(path, line), len(line)
            end_bytes = start_bytes + limit_bytes
            while (line := file.readline(end_bytes - start_bytes)).endswith(b"\n"):
                number += 1
                if (fields := parse_envelope(path, number, line, whole=whole)).get("kind") == "end":
                    end_line = number
                else:
                    piece = piece_at(LinePlace(absolute, number, start_bytes, len(line) - 1), fields, names)
                    if piece.parts in pieces:
                        raise StopwavError(f"{path}:{number}: piece {piece.key} exists already; remove that line")
                    pieces[piece.parts] = piece
                start_bytes += len(line)
    except OSError as error:
        raise StopwavError(f"cannot read the run file {path}: {error.strerror}") from error
    return _Content(header, list(pieces.values()), end_line, number, start_bytes)


def _header_line(file: IO[bytes]) -> bytes:
    """The first line; where it cannot be a header, only its beginning."""
    beginning = file.read(1)
    if beginning == b"{":
        return beginning + file.readline(LONGEST_HEADER_BYTES)
    return beginning and beginning + b"\n"


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        header = Header.model_validate(nested_from_line(line, *ROWS))
    except (ValueError, RecursionError) as error:
        raise StopwavError(f"{path}: not a stopwav run file: the first line is not a run header") from error
    if header.format > FORMAT:
        raise StopwavError(
            f"{path}: written by stopwav {header.stopwav} in the newer format {header.format}; upgrade stopwav"
        )
    return header
