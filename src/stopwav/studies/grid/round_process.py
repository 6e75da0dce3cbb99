"""The process of a round: it loads the engine once and visits one cell after the other."""

from __future__ import annotations

from collections.abc import Callable

from stopwav.measure.launcher import Process, open_process
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.rounds import Round
from stopwav.studies.grid.cell import CellVisitor, GridCell
from stopwav.studies.grid.spec import GridSpec, device_of, engine_of, plan_of

# What a cell may suffer from those before it in its process, such as memory that they left: it is tried again in a
# process of its own, so that its failure is its own. One that hung would only take its time limit again.
TRIED_AGAIN = ("oom", "crashed", "error")


class RoundProcess:
    """Visits cells in a process that is started when first asked, and again behind a cell that ended it."""

    def __init__(self, spec: GridSpec) -> None:
        self._spec = spec
        # Of the engine of the last cell.
        self._lane = ""
        self._process: Process | None = None
        self._visited: list[GridCell] = []

    def visit(self, cell: GridCell, plan: Plan, *, alone: bool = False, peaks: bool = True) -> Round:
        """Return a round of a cell, in a process of its own where that is asked for or it failed behind others.

        One engine at a time is loaded: another one would hold memory that is none of a cell's.
        """
        if alone or cell.lane != self._lane:
            self.close()
            self._lane = cell.lane
        shared = bool(self._visited)
        round_ = self._ask(cell, plan, peaks)
        if shared and round_.status in TRIED_AGAIN:
            round_ = self._ask(cell, plan, peaks)
        if alone:
            self.close()
        return round_

    def close(self) -> None:
        """End the process; the next visit starts another."""
        if self._process is not None:
            self._process.close()
        self._process, self._visited = None, []

    def __enter__(self) -> RoundProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, cell: GridCell, plan: Plan, peaks: bool) -> Round:
        outcome = self._start(plan)
        if outcome.ok and self._process is not None:
            is_largest = all(
                cell.audio_s >= other.audio_s and cell.duration_s >= other.duration_s for other in self._visited
            )
            limit_s = plan.time_limit_s
            outcome = self._process.call("visit", cell, plan, is_largest, peaks, time_limit_s=limit_s)
        if not outcome.ok:
            self.close()  # it may hold half of its work
            return Round(0, outcome.status, outcome.message, outcome.last_words)
        self._visited.append(cell)
        round_: Round = outcome.value
        return round_

    def _start(self, plan: Plan) -> Outcome:
        if self._process is not None:
            return Outcome("ok")
        factory: Callable[..., object] = CellVisitor
        spec, lane = self._spec, self._lane
        limit_bytes = plan_of(spec).memory_limit_bytes
        arguments = (engine_of(spec, lane), spec.audio, spec.seed, device_of(spec, lane), limit_bytes)
        self._process = open_process(factory, *arguments)
        return self._process.start(plan.time_limit_s)
