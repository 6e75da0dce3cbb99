"""The files of runs in a folder: named by study and time, and told from what is no file."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from stopwav.errors import StopwavError


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


def check_file(path: Path) -> None:
    """Raise for what is no regular file: a pipe would be waited for, and a device read without end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StopwavError(f"cannot read the run file {path}: {reason}") from error
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise StopwavError(
            f"cannot read the run file {path}: it is {kinds.get(stat.S_IFMT(mode), 'a device')}; name a run file"
        )
