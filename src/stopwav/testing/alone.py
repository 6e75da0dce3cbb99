"""Measuring alone under pytest-xdist: while a test that measures runs, no other test of the session does.

Other tests share a lock; a test that measures takes it for itself. The kernel releases the lock of a worker that dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Wait for a turn to run a test, alone or beside others, and hold it meanwhile.

    Whoever comes holds the door until it is inside: so those that run beside others do not keep one that has to be
    alone waiting for ever.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder / "door", fcntl.LOCK_EX) as door:
        room = os.open(folder / "room", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            if not alone:
                fcntl.flock(door, fcntl.LOCK_UN)
            yield
        finally:
            os.close(room)


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        os.close(descriptor)
