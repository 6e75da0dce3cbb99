"""What other packages add to stopwav, by the entry points that they declare."""

from __future__ import annotations

import importlib.metadata
import sys
from functools import cache
from importlib.metadata import EntryPoint


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group that the packages on Python's path declare."""
    return _on_path(group, tuple(sys.path))


@cache  # finding them reads a file of every installed package, and a report asks dozens of times
def _on_path(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=group))
