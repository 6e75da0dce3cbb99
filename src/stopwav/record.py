"""The run file: append-only JSON lines. The header comes first, then one line per finished piece of work.

A line is written whole and flushed to disk before the next piece begins, so that a process killed at any instant loses
at most the piece it was in; a torn last line is dropped when the file is read. A run that stopped is resumed by asking
which pieces are there. Only raw observations are stored: every statistic is computed anew when the file is read.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pydantic import BaseModel

from stopwav.errors import Caution, Status, StopwavError
from stopwav.stats import Estimate

FORMAT = 1
# The note of a number that rests on texts of random weights, which has no value.
UNTRAINED = "untrained"


class Header(BaseModel):
    """What was asked for, on what, with what: the first line of a run file."""

    kind: Literal["header"] = "header"
    format: int = FORMAT
    stopwav: str
    study: str
    started: str
    spec: dict[str, Any]
    machine: dict[str, Any] = {}
    corpus: dict[str, Any] = {}
    normaliser: dict[str, Any] = {}
    warnings: list[dict[str, str]] = []


class Piece(BaseModel):
    """One finished piece of work: which (its key), how it ended, and what was observed."""

    kind: Literal["piece"] = "piece"
    key: list[str | int]
    status: Status
    message: str = ""
    last_words: str = ""
    data: dict[str, Any] = {}


@dataclass(frozen=True)
class Result:
    """One row of what a study found: a name, its settings, and its metrics with their intervals."""

    name: str
    params: Mapping[str, object]
    status: Status
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    warnings: tuple[Caution, ...] = ()
    # What the row is of, for code that has to tell rows apart: an engine, a cell of a grid, a length, a fit, …
    kind: str = "engine"

    def to_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "name": self.name,
            "params": dict(self.params),
            "status": self.status,
            "metrics": {name: estimate.to_json() for name, estimate in self.metrics.items()},
            "warnings": [{"code": warning.code, "message": warning.message} for warning in self.warnings],
        }


class Record:
    """A run: its header and its pieces, read from a file, and appended to by at most one process at a time."""

    def __init__(self, path: Path, header: Header, pieces: list[Piece], *, complete: bool) -> None:
        self.path = path
        self.header = header
        self.complete = complete
        self._pieces: dict[tuple[str | int, ...], Piece] = {tuple(piece.key): piece for piece in pieces}
        # How many pieces an earlier process had left.
        self.found = len(pieces)
        self._descriptor: int | None = None

    @property
    def pieces(self) -> list[Piece]:
        """The finished pieces, in the order in which they were finished."""
        return list(self._pieces.values())

    def __contains__(self, key: tuple[str | int, ...]) -> bool:
        return key in self._pieces

    @classmethod
    def create(cls, path: Path, header: Header) -> Record:
        """A new run, open for appending. The file must not exist yet."""
        record = cls(path, header, [], complete=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            record._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
        except OSError as error:
            if os.path.exists(path):
                raise StopwavError(f"{path}: exists already; name another place with --save, or add --resume") from None
            raise StopwavError(
                f"{path}: no run can be written there ({error.strerror}); name another folder with --save"
            ) from error
        record._lock()
        record._write(header.model_dump())
        return record

    @classmethod
    def read(cls, path: Path) -> Record:
        """The run in a file, as far as it got."""
        header, pieces, complete, _ = _parse(path)
        return cls(path, header, pieces, complete=complete)

    @classmethod
    def resume(cls, path: Path) -> Record:
        """The run in a file, open for appending; a torn last line is cut off first."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise StopwavError(f"{path}: cannot be gone on with ({error.strerror}); let it be written to") from error
        try:
            _lock(descriptor, path)
            header, pieces, complete, length = _parse(path)
            os.ftruncate(descriptor, length)
        except BaseException:
            os.close(descriptor)
            raise
        record = cls(path, header, pieces, complete=complete)
        record._descriptor = descriptor
        return record

    def append(self, piece: Piece) -> None:
        """Add a finished piece; it is on disk when this returns."""
        key = tuple(piece.key)
        if key in self._pieces:
            raise StopwavError(f"{self.path}: piece {key} is there already")
        self._write(piece.model_dump(exclude_defaults=False))
        self._pieces[key] = piece

    def finish(self) -> None:
        """Mark the run as complete."""
        if not self.complete:
            self._write({"kind": "end", "finished": now()})
            self.complete = True

    def close(self) -> None:
        """Stop appending and let others."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        assert self._descriptor is not None
        _lock(self._descriptor, self.path)

    def _write(self, line: dict[str, Any]) -> None:
        if self._descriptor is None:
            raise StopwavError(f"{self.path}: this run was opened for reading")
        # ASCII only: a lone surrogate in an engine's output is escaped, not an encoding error.
        data = (json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise StopwavError(
                f"{self.path}: cannot be written ({error.strerror}); what was measured before is kept: "
                "make room, then go on with --resume"
            ) from error


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_path(folder: Path, study: str) -> Path:
    """A path for a new run in a folder, named by study and time, that no file has yet."""
    stem = f"{study}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    candidates = (folder / f"{stem}{suffix}.jsonl" for suffix in ["", *(f"-{n}" for n in range(2, 1000))])
    return next(path for path in candidates if not os.path.exists(path))


def runs_in(folder: Path, study: str) -> Iterator[Record]:
    """The readable runs of a study in a folder, newest first; a file that is not a run is passed over."""
    for path in paths_in(folder, study):
        try:
            record = Record.read(path)
        except StopwavError:
            continue
        # A file may have been copied under another name.
        if record.header.study == study:
            yield record


def paths_in(folder: Path, study: str) -> list[Path]:
    """The files in a folder that are named as runs of the study are, newest first."""
    return sorted(folder.glob(f"{study}-*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)


def read_header(path: Path) -> Header:
    """The header of a run, of which the rest may be broken."""
    try:
        with path.open("rb") as file:
            return _parse_header(path, file.readline())
    except OSError as error:
        raise StopwavError(f"{path}: cannot be read as a run file: {error.strerror}") from error


def _lock(descriptor: int, path: Path) -> None:
    # The kernel lets go of the lock when the process ends, however it ends.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StopwavError(f"{path}: another stopwav is writing this run; wait for it, or stop it") from None


def _parse(path: Path) -> tuple[Header, list[Piece], bool, int]:
    """Header, pieces, whether the run is complete, and the length of the sound part of the file in bytes."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StopwavError(f"{path}: cannot be read as a run file: {error.strerror}") from error
    sound = content.rfind(b"\n") + 1
    lines = content[:sound].split(b"\n")[:-1]
    if not lines:
        raise StopwavError(f"{path}: holds no run (no complete first line); delete it and start again")
    header = _parse_header(path, lines[0])
    pieces: list[Piece] = []
    complete = False
    for number, line in enumerate(lines[1:], start=2):
        try:
            fields = json.loads(line)
            if fields.get("kind") == "end":
                complete = True
            else:
                pieces.append(Piece.model_validate(fields))
        except (ValueError, AttributeError, RecursionError) as error:
            reason = re.sub(r"\s+", " ", str(error))[:120]
            raise StopwavError(f"{path}:{number}: not a piece of a run ({reason}); remove that line") from error
    return header, pieces, complete, sound


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        # Not pydantic's own reader: it refuses the lone surrogates of a file name that is no UTF-8.
        header = Header.model_validate(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise StopwavError(f"{path}: not a stopwav run file (its first line is no header)") from error
    if header.format > FORMAT:
        raise StopwavError(f"{path}: written by stopwav {header.stopwav} (format {header.format}); upgrade stopwav")
    return header
