"""A client process of a load run, on this machine or another, and how its clock differs from ours."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

from stopwav.measure.launcher import Launcher, current_launcher, launching_on
from stopwav.measure.process import Outcome
from stopwav.studies.launch.run import machine_launcher
from stopwav.studies.load.generator import Generator
from stopwav.studies.worker import Worker

# Of so many round trips the shortest says most of the difference of two clocks: it waited least.
ROUND_TRIPS = 20
ROUND_TRIP_LIMIT_S = 30.0
NS = 1_000_000_000


@dataclass(frozen=True)
class ClockOffset:
    """By how much a client's clock is ahead of ours, to within half of the round trip by which that was measured."""

    offset_s: float
    round_trip_s: float

    def to_json(self) -> dict[str, float]:
        """Return it as a run stores it."""
        return asdict(self)


class Client:
    """A client process, and the thread that talks to it: the kernel ends the one with the other."""

    def __init__(self, server: str, chunk_ms: float | None) -> None:
        self._worker = Worker(Generator, (server, chunk_ms), "client")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stopwav-client")

    def ask(self, method: str, *arguments: object, time_limit_s: float) -> Future[Outcome]:
        """Ask the process; it may be in the middle of something when this returns."""
        return self._thread.submit(self._worker.call, method, *arguments, time_limit_s=time_limit_s)

    def clock_offset(self) -> ClockOffset | Outcome:
        """Return the difference of the clocks, by round trips, or how asking for it failed."""
        shortest: tuple[int, int] | None = None
        for _ in range(ROUND_TRIPS):
            before_ns = time.perf_counter_ns()
            outcome = self.ask("clock", time_limit_s=ROUND_TRIP_LIMIT_S).result()
            after_ns = time.perf_counter_ns()
            if not outcome.ok:
                return outcome
            trip_ns, offset_ns = after_ns - before_ns, outcome.value - (before_ns + after_ns) // 2
            shortest = min(shortest or (trip_ns, offset_ns), (trip_ns, offset_ns))
        assert shortest is not None
        return ClockOffset(shortest[1] / NS, shortest[0] / NS)

    def close(self) -> None:
        """End the process."""
        # It may be in the middle of a level: it is killed, and the call in the thread sees it end.
        with contextlib.suppress(Exception):
            self._worker.close()
        self._thread.shutdown(wait=True)


def open_clients(server: str, chunk_ms: float | None, processes: int) -> list[Client]:
    """Return the clients of a target, so many on each machine of the run."""
    clients = []
    for launcher in _launchers():
        with launching_on(launcher):
            clients += [Client(server, chunk_ms) for _ in range(processes)]
    return clients


def _launchers() -> list[Launcher]:
    launcher = machine_launcher()
    return [current_launcher()] if launcher is None else [launcher, *launcher.siblings(same_kind=False)]
