"""An event loop whose time stands still while anything happens, and jumps to the next moment that is waited for."""

import asyncio
import selectors


class VirtualLoop(asyncio.SelectorEventLoop):
    """Timeouts, sleeps and clocks of it are exact, and nobody waits."""

    def __init__(self):
        self._now_s = 0.0
        super().__init__(_Selector(self))

    def time(self):
        return self._now_s

    def advance(self, seconds):
        self._now_s += seconds

    def now_ns(self):
        """The clock of what runs in it."""
        return round(self._now_s * 1e9)


class _Selector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout:
            self._loop.advance(timeout)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen")
        return ready
