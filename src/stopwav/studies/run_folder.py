"""The folder of runs: a path for a new one, those that it holds, and whether a file can be written into it."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile


def closed_reason(folder: Path) -> str:
    """Return why no file can be created in a folder, there or still to be made; "" where one can. Leaves nothing."""
    nearest = Path(os.path.abspath(folder))
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with TemporaryFile(dir=nearest):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def new_path(folder: Path, study: str) -> Path:
    """Return a path in a folder for a new run, named by study and time, that does not exist yet."""
    stem = f"{study}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    candidates = (folder / f"{stem}{suffix}.jsonl" for suffix in ["", *(f"-{n}" for n in range(2, 1000))])
    return next(path for path in candidates if not os.path.exists(path))


def paths_in(folder: Path, study: str) -> list[Path]:
    """Return the files in a folder that are named like runs of the study, newest first; pipes and the like are none."""
    times_s = {path: _modified_s(path) for path in folder.glob(f"{study}-*.jsonl")}
    files = [(time_s, path) for path, time_s in times_s.items() if time_s is not None]
    return [path for _, path in sorted(files, reverse=True)]


def _modified_s(path: Path) -> float | None:
    """When a file was last written to; None for what is no file, or is gone, as behind a link that leads nowhere."""
    try:
        described = path.stat()
    except OSError:
        return None
    return described.st_mtime if stat.S_ISREG(described.st_mode) else None
