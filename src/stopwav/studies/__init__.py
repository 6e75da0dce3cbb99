"""The studies: spec in, run file out; and the results of a run, whichever study it is of."""

from __future__ import annotations

from stopwav.record import Record, Result
from stopwav.studies.study import study_of


def results(record: Record) -> list[Result]:
    """Return the results of a run, computed again from its raw observations."""
    return study_of(record).results(record)
