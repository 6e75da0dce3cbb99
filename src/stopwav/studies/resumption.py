"""The run that a study measures into: a new one, or one to go on with, whose pieces have to be as they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, new_path, paths_in, read_header

# What reading a piece raises where a field is missing, or holds something else.
UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    StopIteration,
)


def open_record(
    study: str,
    spec: BaseModel,
    folder: Path,
    resume: bool,
    header: Callable[[], Header],
    *,
    same: Callable[[Header], bool] | None = None,
    append: bool = False,
) -> Record:
    """The record that a study measures into: with `resume` the newest run of this spec, else a new one.

    A complete run is open for reading only, unless `append` is set. One that is broken, or was begun on another machine
    or with other packages, is an error: its rounds and today's are not of one measurement. `same` says whether a run is
    of this spec, where more is to be compared than the specs. `header` makes that of a new run, and raises what has to
    be said before anything is measured.
    """
    if resume:
        is_same = same or (lambda other: other.spec == spec.model_dump())
        path = next((path for path in paths_in(folder, study) if _is_of(path, study, is_same)), None)
        if path is not None:
            found = Record.read(path)
            if found.complete and not append:
                return found
            _check_machine(found)
            return Record.resume(path)
    first = header()
    return Record.create(new_path(folder, study), first)


def _is_of(path: Path, study: str, is_same: Callable[[Header], bool]) -> bool:
    try:
        header = read_header(path)
    except StopwavError:
        return False
    return header.study == study and is_same(header)


def _check_machine(record: Record) -> None:
    """Raise where the run was begun elsewhere, or with other software than is here now."""
    from stopwav.measure.machine import describe

    before, now = record.header.machine, describe().as_dict()
    told = ("cpu", "fingerprint", "python", "packages", "threads")
    changed = [key for key in told if key in before and before[key] != now[key]]
    if changed:
        raise StopwavError(
            f"{record.path}: was begun with another {changed[0]} than is here now; go on with it there, or "
            "measure again without --resume"
        )


def check_pieces(record: Record) -> None:
    """Raise where an earlier process left pieces that no results can be computed from."""
    from stopwav.studies import results

    if record.previous_count:
        with as_written(record, "pieces"):
            results(record)


@contextmanager
def as_written(record: Record, what: str) -> Iterator[None]:
    """A block that reads pieces of an earlier process: those that it cannot read are an error in one line."""
    try:
        yield
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
        raise StopwavError(
            f"{record.path}: has {what} that stopwav did not write so ({reason}); measure again without --resume"
        ) from error
