"""Traces of a run: profiler files in a folder beside the run file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from stopwav.errors import Caution, StopwavError
from stopwav.piece import Piece
from stopwav.profiling.schedule import parse_schedule, schedule_text
from stopwav.record import Record


def _read_schedule(value: Any) -> str:
    try:
        return schedule_text(parse_schedule(value))
    except StopwavError as error:
        raise ValueError(str(error)) from error


# A setting that holds a schedule as text, `wait=10,warmup=10,active=20,repeat=2`, however it was given.
ScheduleText = Annotated[str, BeforeValidator(_read_schedule)]


def traces_folder(record: Record) -> Path:
    """Return where the traces of a run lie: beside its file."""
    return record.path.with_name(f"{record.path.stem}-traces")


def failed_trace_warning(piece: Piece) -> Caution:
    """Return the warning that there is no trace, and why."""
    return Caution("trace-failed", f"no trace ({piece.status}: {piece.message}); the numbers do not need it")
