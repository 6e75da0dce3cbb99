"""A clock that moves only when told to, so that schedules are tested without waiting."""

from collections.abc import Callable

from stopwav.measure.clock import Timing
from stopwav.measure.stages import collect_marks, spans_of


class FakeClock:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self._now_ns = 0

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now_ns += round(seconds * 1e9)

    def now_ns(self) -> int:
        """Return the nanoseconds since the clock was made."""
        return self._now_ns

    def wait_until_ns(self, deadline_ns: int, *, may_sleep: bool = False) -> None:
        """Move to the deadline, or stay when it has passed."""
        self._now_ns = max(self._now_ns, deadline_ns)

    def time(self, call: Callable[[], object]) -> Timing:
        """Time one call, which advances this clock itself."""
        with collect_marks(self.now_ns) as marks:
            start_ns = self._now_ns
            result = call()
        return Timing((self._now_ns - start_ns) / 1e9, None, spans_of(marks, start_ns), result)
