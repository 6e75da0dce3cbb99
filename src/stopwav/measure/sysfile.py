"""The small text files in which a system tells about itself."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a file without white space around it, empty where it is missing or may not be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
