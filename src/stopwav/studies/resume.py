"""The run that a study measures into: a new one, or one to resume, whose pieces have to be as they were written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, new_path, paths_in, read_header
from stopwav.studies.spec import StudySpec
from stopwav.studies.stored_fields import readable

AGAIN = "measure again without --resume"


def open_record(
    study: str,
    spec: StudySpec,
    header: Callable[[], Header],
    *,
    same: Callable[[Header], bool] | None = None,
    append: bool = False,
) -> Record:
    """Return the record that a study measures into: to resume, the newest run of this spec, else a new one.

    A complete run is open for reading only, unless `append` is set. One that is broken or was edited, or was started on
    another machine or with other packages, is an error: its rounds and today's are not one measurement. `same` says
    whether a run is of this spec, where more is compared than the settings. `header` makes that of a new run, and
    raises what is wrong before anything is measured.
    """
    from stopwav.studies.study import check_run, study_of

    if spec.resume:
        is_same = same or (lambda other: other.spec == spec.stored())
        path = next((path for path in paths_in(spec.save, study) if _is_run_of(path, study, is_same)), None)
        if path is not None:
            record = Record.read(path)
            check_run(record, study_of(record), AGAIN)
            if record.complete and not append:
                return record
            _check_machine(record)
            return Record.resume(path)
    first = header()  # before there is a file
    return Record.create(new_path(spec.save, study), first)


def _is_run_of(path: Path, study: str, is_same: Callable[[Header], bool]) -> bool:
    try:
        header = read_header(path)
    except StopwavError:
        return False
    return header.study == study and is_same(header)


def _check_machine(record: Record) -> None:
    """Raise where the run was started elsewhere, or with other software than is here now."""
    from stopwav.measure.machine import describe

    before, now = record.header.machine, describe().as_dict()
    compared = ("cpu", "fingerprint", "python", "packages", "threads")
    changed = [key for key in compared if key in before and before[key] != now[key]]
    if changed:
        raise StopwavError(
            f"cannot resume {record.path}: it was started with another {changed[0]}; resume it there, or {AGAIN}"
        )


def check_pieces(record: Record) -> None:
    """Raise where an earlier process left pieces that no results can be computed from."""
    from stopwav.studies.study import study_of

    if record.previous_count:
        with readable(record, "pieces", AGAIN):
            study_of(record).results(record)
