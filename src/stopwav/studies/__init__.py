"""The studies: spec in, record out; and what a recorded run found, whichever study it is of."""

from __future__ import annotations

from stopwav.errors import StopwavError
from stopwav.record import Record, Result


def results(record: Record) -> list[Result]:
    """What a recorded run found, computed anew from its raw observations."""
    if record.header.study == "latency":
        from stopwav.studies.latency_results import latency_results

        return latency_results(record)
    if record.header.study == "grid":
        from stopwav.studies.grid_results import grid_results

        return grid_results(record)
    if record.header.study == "compare":
        from stopwav.studies.compare_results import compare_results

        return compare_results(record)
    if record.header.study == "loss":
        from stopwav.studies.loss_results import loss_results

        return loss_results(record)
    if record.header.study == "step":
        from stopwav.studies.step_results import step_results

        return step_results(record)
    raise StopwavError(f"{record.path}: a run of {record.header.study!r}, which this version of stopwav does not know")
