"""The run that a study measures into: a new one, or one to go on with, whose pieces have to be as they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, new_path, runs_in

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

    A complete run is open for reading only, unless `append` is set. `same` says whether a run is of this spec, where
    more is to be compared than the specs. `header` makes that of a new run, and raises what has to be said before
    anything is measured.
    """
    if resume:
        is_same = same or (lambda other: other.spec == spec.model_dump())
        found = next((run for run in runs_in(folder, study) if is_same(run.header)), None)
        if found is not None:
            return Record.resume(found.path) if append or not found.complete else found
    first = header()
    return Record.create(new_path(folder, study), first)


def check_pieces(record: Record) -> None:
    """Raise where an earlier process left pieces that no results can be computed from."""
    from stopwav.studies import results

    if record.found:
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
