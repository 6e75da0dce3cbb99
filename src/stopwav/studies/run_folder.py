"""A folder that files are to be written into: whether that will be possible, asked before hours of work."""

from __future__ import annotations

import os
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
