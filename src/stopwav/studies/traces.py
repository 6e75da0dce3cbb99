"""Traces of a run: profiler files in a folder beside the run file."""

from __future__ import annotations

from pathlib import Path

from stopwav.errors import Caution
from stopwav.record import Piece, Record


def traces_folder(record: Record) -> Path:
    """Return where the traces of a run lie: beside its file."""
    return record.path.with_name(f"{record.path.stem}-traces")


def failed_trace_warning(piece: Piece) -> Caution:
    """Return the warning that there is no trace, and why."""
    return Caution("trace-failed", f"no trace ({piece.status}: {piece.message}); the numbers do not need it")
