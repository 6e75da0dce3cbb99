"""The folder in which stopwav keeps what takes long to make again: word times, and audio that lies in no file."""

from __future__ import annotations

import os
from pathlib import Path

# The folder of the cache; set to nothing, there is none.
VARIABLE = "STOPWAV_CACHE"


def cache_folder() -> Path | None:
    """Return the folder of the cache: `$STOPWAV_CACHE`, else `stopwav` in the user's cache folder; None for none."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) if os.environ[VARIABLE] else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the standard says to ignore a relative one
        return Path(base, "stopwav")
    home = os.path.expanduser("~")
    return Path(home, ".cache", "stopwav") if os.path.isabs(home) else None
