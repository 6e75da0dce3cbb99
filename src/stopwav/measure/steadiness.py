"""How steady a core of this machine is: what the same small piece of work takes on it, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from stopwav.errors import Caution
from stopwav.stats.percentiles import minimum_count, nearest_rank

# Where others share a processor, its slow spells last from tenths of a second to seconds.
DURATION_S = 2.0
# A millisecond or so of counting: a thousand times what reading the clock takes.
COUNT = 50_000
# Ten times the smallest change that a verdict is about by default; shared cores were seen to differ by 1.5 to 2 times.
UNSTEADY = 1.1


@dataclass(frozen=True)
class Steadiness:
    """How often the work was done, and percentiles of the time it took."""

    values: int
    p10_s: float
    p50_s: float
    p90_s: float

    def __str__(self) -> str:
        return f"{1e3 * self.p10_s:.2f} to {1e3 * self.p90_s:.2f} ms, P10 to P90 of {self.values} times in one thread"

    def cautions(self) -> list[Caution]:
        """One where the slow tenth takes much longer than the fast one."""
        if self.p90_s <= UNSTEADY * self.p10_s:
            return []
        message = (
            f"in its slow tenth the same work took {self.p90_s / self.p10_s:.2f} times as long as in its fast one: the "
            "processor is shared, or changes its speed; take more rounds, and compare only inside one run"
        )
        return [Caution("unsteady-core", message)]


def _count() -> None:
    for _ in range(COUNT):
        pass


def steadiness(work: Callable[[], object] = _count, now_ns: Callable[[], int] = perf_counter_ns) -> Steadiness:
    """The steadiness of a core, from some seconds of work on it."""
    values_s: list[float] = []
    begin_ns = at_ns = now_ns()
    while len(values_s) < minimum_count(0.9) or at_ns - begin_ns < DURATION_S * 1e9:
        work()
        last_ns, at_ns = at_ns, now_ns()
        values_s.append((at_ns - last_ns) / 1e9)
    return Steadiness(len(values_s), *(nearest_rank(values_s, p) for p in (0.1, 0.5, 0.9)))
