"""The external meter of a comparison: its log is copied into the run while it grows, and not needed afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.meter_log import MeterLog, log_files, read_growing_log, read_meter_log, wait_for_reading
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.compare.pieces import (
    EXTERNAL,
    METER_LOG,
    EnergyRun,
    meter_log_of,
    meter_log_pieces,
    meters_of,
    windows_span,
)


def check_meter_log(path: Path) -> None:
    """Raise for a faulty meter log before anything is measured; it may be empty, or begin during the run."""
    if log_files(path):
        read_growing_log(path, fewest=0)
    elif not path.parent.is_dir():
        raise StopwavError(f"--meter-csv {path}: there is no folder {path.parent}; name the file that the meter writes")


def log_interval_s(path: Path) -> float:
    """Return the usual time between two readings of the log; 0 where it cannot be read yet."""
    try:
        return read_growing_log(path).interval_s
    except StopwavError:
        return 0.0


def copy_readings(path: Path, record: Record) -> None:
    """Copy the readings of the windows so far that the log has by now, so that what happens to it later is no loss."""
    span = windows_span(record)
    try:
        if span is not None:
            _store(record, read_growing_log(path), span, {})
    except StopwavError:
        pass  # not there yet, or faulty: the end of the run waits for it, and says what is wrong


def await_readings(path: Path, record: Record) -> bool:
    """Wait for the reading that covers the last window and copy what is missing; return whether the run has it now."""
    span, stored = windows_span(record), meter_log_of(record)
    if span is None or (stored is not None and stored.times_s[-1] >= span[1]):
        return True
    awaited = wait_for_reading(path, span[1])
    facts = {"waited_s": awaited.waited_s, "fault": awaited.fault}
    _store(record, awaited.log or MeterLog((), ()), span, facts)
    return not awaited.fault


def _store(record: Record, log: MeterLog, span: tuple[float, float], facts: dict[str, Any]) -> None:
    """Append the readings that the run does not hold yet; a piece of facts alone is stored too."""
    stored, around = meter_log_of(record), log.around(*span)
    latest_s = stored.times_s[-1] if stored else 0.0
    new = [(time_s, watts) for time_s, watts in zip(around.times_s, around.watts, strict=True) if time_s > latest_s]
    if new or facts:
        data = {"times_s": [time_s for time_s, _ in new], "watts": [watts for _, watts in new], "source": log.source}
        key: list[str | int] = [METER_LOG, len(meter_log_pieces(record))]
        record.append(Piece(key=key, status="ok", data={**data, **facts}))


def external_log(record: Record) -> tuple[MeterLog | None, str]:
    """Return the readings of the external meter, and what is wrong with its log: a run that holds them needs no file.

    Runs of older versions may not hold them; of these the file is read, where it still is.
    """
    stored, path = meter_log_of(record), record.header.spec["meter_csv"]
    faults = [str(piece.data.get("fault", "")) for piece in meter_log_pieces(record)]
    if stored is not None or path is None:
        return stored, faults[-1] if faults else ""
    if (meters_of(record) or {}).get("keeps_log"):
        return None, faults[-1] if faults else f"meter log {path}: its readings are not in the run yet"
    try:
        # The name is the file's to say: a pipe would be waited for, and a device read without end.
        for file in (*log_files(Path(path)), Path(f"{path}.1")):
            if file.exists() and not file.is_file():
                return None, f"meter log {file}: cannot be read: it is not a file"
        return read_meter_log(Path(path)), ""
    except (StopwavError, OSError, ValueError) as error:
        return None, str(error)[:300]


def log_fault(runs: Sequence[EnergyRun], fault: str) -> str:
    """Return how many windows the log has no energy for, and why; empty where it has all."""
    windows = [window for run in runs for window in (run.idle, *run.windows)]
    reasons = [window.missing[EXTERNAL] for window in windows if EXTERNAL in window.missing]
    if not reasons:
        return ""
    return f"{len(reasons)} of {len(windows)} windows are left out: {fault or reasons[0]}"


def covered_runs(part: str, runs: Sequence[EnergyRun]) -> Sequence[EnergyRun]:
    """Return the processes with the windows to count: of an external meter, those its log covers; raise for none."""
    if part != EXTERNAL:
        return runs
    covered = [
        replace(run, windows=tuple(window for window in run.windows if EXTERNAL in window.joules))
        for run in runs
        if EXTERNAL in run.idle.joules
    ]
    usable = [run for run in covered if run.windows]
    if runs and not usable:
        windows = [window for run in runs for window in (run.idle, *run.windows)]
        raise StopwavError(next(window.missing[part] for window in windows if part in window.missing))
    return usable
