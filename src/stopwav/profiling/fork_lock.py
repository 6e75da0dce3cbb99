"""A lock that a forked child does not find taken."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class ForkLock:
    """A reentrant lock: the garbage collector and signal handlers may call watched code in the middle of counting.

    A fork copies it as it is, also where a thread holds it that the child does not have; so the child gets a new one.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()
