"""The studies: spec in, record out; and what a recorded run found, whichever study it is of."""

from __future__ import annotations

from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.studies.catalogue import STUDIES, Study, find


def results(record: Record) -> list[Result]:
    """What a recorded run found, computed anew from its raw observations."""
    return _study(record).results(record)


def beside(record: Record) -> dict[str, Any]:
    """What a recorded run says beside its results, by key: what its settings gain, or the card of a comparison."""
    said = {key: find(path)(record) for key, path in _study(record).beside.items()}
    return {key: one for key, one in said.items() if one is not None}


def view(record: Record) -> dict[str, Any]:
    """What the charts of a run show that is not in its results; nothing for a study that is drawn from these alone."""
    path = _study(record).view
    return {} if path is None else find(path)(record)


def _study(record: Record) -> Study:
    if record.header.study not in STUDIES:
        raise StopwavError(
            f"{record.path}: a run of {record.header.study!r}, which this version of stopwav does not know"
        )
    return STUDIES[record.header.study]
