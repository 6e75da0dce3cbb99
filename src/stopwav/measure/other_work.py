"""The processor time that processes of others take: all busy time of the cores, less that of this process and its own.

A load average counts what ran in the last minute, this run and the one before it included. Here what we caused is
subtracted: this process, the processes it started that still run, and those that have ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import Caution
from stopwav.measure.machine import read_text

# The kernel counts in steps of 10 ms: over 0.3 s an error of a few percent of a core, and a start that nobody notices.
WINDOW_S = 0.3
# Where others take more than a quarter of all cores, a measurement shares caches, memory and clock boost with them; on
# two cores that is half of one. Editors, browsers at rest and system services stay below.
BUSY_SHARE = 0.25
_SHORTEST_S = 0.1  # below it those steps could be a quarter of all cores
_ROOT = Path("/")


@dataclass(frozen=True)
class OtherWork:
    """A watch on the work of other processes: start it, and ask it at the end for the cores they used meanwhile.

    It may be asked again later, and then counts from its start to that moment.
    """

    root: Path
    now_s: Callable[[], float]
    started_s: float
    # Of all cores and of our own processes, at the start; None where the system does not count it.
    busy_s: float | None
    own_s: float

    @classmethod
    def start(cls, root: Path = _ROOT, now_s: Callable[[], float] = time.monotonic) -> OtherWork:
        """Return a watch that starts now."""
        return cls(root, now_s, now_s(), _busy_s(root), _own_s())

    def cores(self) -> float | None:
        """Return how many cores other processes used on average since the start; None where that is not known."""
        elapsed_s, busy_s = self.now_s() - self.started_s, _busy_s(self.root)
        if self.busy_s is None or busy_s is None or elapsed_s < _SHORTEST_S:
            return None
        # Below zero by the steps of the two counts, where nobody else works.
        others_s = busy_s - self.busy_s - (_own_s() - self.own_s)
        return min(max(0.0, others_s / elapsed_s), float(os.cpu_count() or 1))


def other_cores_now() -> float | None:
    """Return how many cores other processes use, watched for a moment."""
    watch = OtherWork.start()
    time.sleep(WINDOW_S)
    return watch.cores()


def busy_cautions(cores: float | None, when: str = "just now") -> list[Caution]:
    """Return a caution where other processes used more than a quarter of all cores; `when` they did ends its cause."""
    available = os.cpu_count() or 1
    if cores is None or cores <= BUSY_SHARE * available:
        return []
    message = f"other processes used {cores:.1f} of {available} cores {when}: stop other processes (see top), or wait"
    return [Caution("busy-machine", message)]


def _busy_s(root: Path) -> float | None:
    """Seconds that all cores together have worked since the system started; None where they are not counted."""
    words = read_text(root / "proc/stat").split("\n")[0].split()
    if words[:1] == ["cpu"] and len(words) > 7:
        user, nice, system, idle, _, interrupts, soft_interrupts = map(int, words[1:8])
        # What follows is no work of processes here: stolen by other virtual machines, or counted twice (guests).
        counts = user + nice + system + interrupts + soft_interrupts
        # Some sandboxes show zeros only.
        return counts / os.sysconf("SC_CLK_TCK") if counts + idle > 0 else None
    if root != _ROOT:
        return None
    import psutil

    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0))


def _own_s() -> float:
    """Processor seconds of this process, of those it started, and of theirs; what has ended was added to its parent."""
    import psutil

    spent = os.times()
    total = time.process_time() + spent.children_user + spent.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:  # it has ended since, and is counted with its parent's at the next reading
            continue
        total += times.user + times.system
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(total)
