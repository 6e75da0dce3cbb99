"""The traces of torch.profiler that lie beside a run: their folder, and the warning where one is missing."""

from __future__ import annotations

from pathlib import Path

from stopwav.errors import Caution
from stopwav.record import Piece, Record


def traces_folder(record: Record) -> Path:
    """Return the folder beside the run file in which its traces lie."""
    return record.path.with_name(f"{record.path.stem}-traces")


def missing_trace(piece: Piece) -> Caution:
    """Return the warning that a profiled pass left no trace."""
    return Caution("trace-failed", f"no trace ({piece.status}: {piece.message}); the numbers do not need it")
