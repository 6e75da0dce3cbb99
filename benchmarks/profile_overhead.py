"""The overhead of `stopwav.profile` on a function that does nothing. Prints a Markdown table.

python benchmarks/profile_overhead.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import stopwav
from stopwav.measure.machine import describe
from stopwav.profiling.profile import MEMORY_CALLS
from stopwav.stats import nearest_rank

BLOCKS = 200


def empty() -> None:
    """Do nothing."""


def staged() -> None:
    """Do nothing, in three stages."""
    for name in ("features", "inference", "post"):
        with stopwav.stage(name):
            pass


def cost_us(call: Callable[[], object], calls: int, before: Callable[[], object] = empty) -> float:
    """Microseconds per call, the median of blocks of `calls`; `before` runs ahead of each block, untimed."""
    costs_us = []
    for _ in range(BLOCKS):
        before()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        costs_us.append((time.perf_counter() - start) / calls * 1e6)
    return nearest_rank(costs_us, 0.5)


def main() -> None:
    """Print the table."""
    plain = cost_us(empty, 100)
    rows = []
    for label, function, memory in (
        ("time only (`memory=False`)", empty, False),
        ("time only, three stages inside", staged, False),
        (f"memory too, as in the first {MEMORY_CALLS} calls", empty, True),
    ):
        watched = stopwav.profile(report=False, memory=memory)(function)
        profile: stopwav.Profile = watched.profile  # type: ignore[attr-defined]
        around = cost_us(watched, MEMORY_CALLS, profile.reset) - plain
        inside = 1e6 * nearest_rank(profile.walls_s, 0.5)
        rows.append(f"| {label} | {around:.1f} | {inside:.1f} |")
    machine = describe()
    print(f"{machine.cpu}, {machine.logical_cores} cores\n")
    print("| per call, in µs | added to the program | included in the reported time |")
    print("|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
