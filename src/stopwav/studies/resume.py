"""The run that a study measures into: a new one, or one to resume, whose pieces have to be as they were written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, read_header
from stopwav.run_paths import new_path, paths_in
from stopwav.studies.budget import BudgetedSpec, budget_text, is_finished
from stopwav.studies.digests import changed_file, missing_file
from stopwav.studies.run_folder import closed_reason
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

    A complete run is open for reading only, unless `append` is set, or the budget is larger than what it has spent.
    One that is broken or was edited, or was started on another machine, with other packages, or with other files than
    are here now, is an error: its rounds and today's are not one measurement. `same` says whether a run is of this
    spec, where more is compared than the settings. `header` makes that of a new run, and raises what is wrong before
    anything is measured.
    """
    record = _resumed(study, spec, same or (lambda other: other.spec == spec.stored()), append) if spec.resume else None
    if record is None:
        if reason := closed_reason(spec.save):  # now: a header may take hours, in which a corpus is aligned
            raise StopwavError(
                f"cannot create the run file in {spec.save} ({reason}); choose another folder with --save"
            )
        first = header()  # before there is a file
        record = Record.create(new_path(spec.save, study), first)
    spec.opened(record)
    if isinstance(spec, BudgetedSpec) and spec.is_budgeted and not record.complete:
        spec.say(budget_text(spec, record))
    return record


def _resumed(study: str, spec: StudySpec, same: Callable[[Header], bool], append: bool) -> Record | None:
    """The newest run of a spec, open for more where there is more to do; None where there is none."""
    from stopwav.studies.study import check_run, study_of

    path = next((path for path in paths_in(spec.save, study) if _is_run_of(path, study, same)), None)
    if path is None:
        return None
    record = Record.read(path)
    check_run(record, study_of(record), AGAIN)
    _check_files(record)
    more_time = isinstance(spec, BudgetedSpec) and record.complete and not is_finished(record, spec)
    if record.complete and not append and not more_time:
        return record
    _check_machine(record)
    resumed = Record.resume(path)
    # With more time than it has spent, it is complete once that is spent too.
    resumed.complete = resumed.complete and not more_time
    return resumed


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


def _check_files(record: Record) -> None:
    """Raise where a file that the run measures is not what it was; runs of older versions do not say what it was."""
    digests = record.header.digests
    if (changed := changed_file(digests)) is not None:
        raise StopwavError(f"cannot resume {record.path}: {changed} has changed since; {AGAIN}")
    # What is complete needs its files no more.
    if not record.complete and (missing := missing_file(digests)) is not None:
        raise StopwavError(f"cannot resume {record.path}: {missing} is no longer there; put it back, or {AGAIN}")


def check_pieces(record: Record) -> None:
    """Raise where an earlier process left pieces that no results can be computed from."""
    from stopwav.studies.study import study_of

    if record.previous_count:
        with readable(record, "pieces", AGAIN):
            study_of(record).results(record)
