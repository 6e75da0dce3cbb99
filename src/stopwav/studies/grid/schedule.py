"""How a grid spends its budget: a first sweep over every cell, then rounds over those cells where they matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stopwav.measure.plan import Plan
from stopwav.measure.rounds import Measurement, Round
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.stats import UNDECIDED
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, half_width, store_spent, time_text
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import (
    by_lane,
    cell_place,
    drawn_order,
    lacking_own,
    measurements,
    own_key,
    rising_cells,
)
from stopwav.studies.grid.costs import Costs, costs_of, is_near_limit
from stopwav.studies.grid.real_time import implausible, real_time_verdict
from stopwav.studies.grid.round_process import RoundProcess
from stopwav.studies.grid.spec import GridSpec, plan_of
from stopwav.studies.spec import MOST_WHOLE
from stopwav.studies.stored_rounds import round_to_piece, take_visit

# An interval of fewer rounds is rough, so this many share the time after the sweep.
WANTED_ROUNDS = 5
# Of the time that calls leave, what visits may plan to use: they take whole calls, and so a little more than planned.
PLANNED_SHARE = 0.8
# A visit is killed when the budget is overdrawn by this share of it: half of the tenth that a command may take more.
OVERDRAFT = 0.05
# The most of the budget that passes in processes of their own take from rounds.
OWN_SHARE = 0.15
# Time of one call alone: no time is given to more.
ONE_CALL_S = 1e-6
# A process that crashed by chance is started again; one that did so three times will again.
MOST_CRASHES = 3
# About so near to real time a cell may turn out to be on either side of it.
NEAR_REAL_TIME = 1.5


@dataclass(frozen=True)
class Spending:
    """A run that spends its budget."""

    spec: GridSpec
    record: Record
    budget: Budget

    @property
    def measured(self) -> dict[GridCell, Measurement]:
        """The rounds so far."""
        return dict(measurements(self.record))

    def show(self, upcoming: str) -> None:
        """Show the results so far and what is next."""
        self.spec.show(self.record, upcoming, self.budget.left_s)

    def is_near_limit(self, cell: GridCell, measured: Mapping[GridCell, Measurement]) -> bool:
        """Whether a cell may come near the limit of the memory."""
        return is_near_limit(self.spec, self.record.header.machine, measured, cell)

    def visit(self, process: RoundProcess, cell: GridCell, index: int, visit_s: float, peaks: bool) -> bool:
        """Measure a round of a cell within so many seconds; return whether the budget had time for it."""
        plan = self._plan(visit_s)
        alone = self.is_near_limit(cell, self.measured)

        def visit() -> Round | None:
            round_ = process.visit(cell, plan, alone=alone, peaks=peaks)
            # It was the budget that ended, not the time limit of a round.
            is_cut = round_.status == "timeout" and plan.time_limit_s < self.spec.time_limit_s
            return None if is_cut else round_

        return take_visit(self.record, cell_place(cell), index, visit)

    def own_pass(self, process: RoundProcess, cell: GridCell) -> None:
        """Call a cell once in a process of its own, for its first call and its memory."""
        plan = self._plan(ONE_CALL_S)
        round_ = process.visit(cell, plan, alone=True)
        if round_.status != "timeout" or plan.time_limit_s == self.spec.time_limit_s:
            self.record.append(round_to_piece(own_key(cell), round_))

    def _plan(self, visit_s: float) -> Plan:
        limit_s = self.budget.left_s + OVERDRAFT * self.budget.total_s
        plan = plan_of(self.spec)
        return replace(plan, visit_s=max(ONE_CALL_S, visit_s), time_limit_s=min(plan.time_limit_s, limit_s))


def sweep(run: Spending) -> None:
    """Take the first round: every cell in rising order, within a quarter of the budget, then those that take longer.

    What does not fit the budget at all is left out, and stored with the time that a call of it takes.
    """
    cells = [cell for cell in rising_cells(run.spec) if cell_place(cell).key(0, 0) not in run.record]
    total = len(rising_cells(run.spec))
    with RoundProcess(run.spec) as process:
        for position, cell in enumerate(cells):
            run.spec.report("first sweep", total - len(cells) + position, total)
            costs = costs_of(run.measured)
            call_s = costs.call_s(cell) or 0.0
            run.show(f"{cell}, about {time_text(call_s)} a call" if call_s else str(cell))
            visit_s = sweep_visit_s(run.budget, costs, cells[position:])
            # Engines that the sweep has not come to yet have as much time as this one.
            waiting = len({other.lane for other in cells[position:]})
            kept_s = run.budget.left_s * (waiting - 1) / waiting
            fits = run.budget.fits(costs.least_s(cell, peaks=True) + kept_s)
            if not fits or not run.visit(process, cell, 0, visit_s, peaks=True):
                _leave_out(run.record, cell, call_s if not fits else max(call_s, run.budget.total_s))
            # After each: a call may take minutes.
            store_spent(run.record, run.budget)
    run.spec.report("first sweep", total, total)


def sweep_visit_s(budget: Budget, costs: Costs, cells: Sequence[GridCell]) -> float:
    """Return the seconds for the first of the cells that the sweep still has to visit.

    Each has the time of its own call; what is left of the quarter by the calls that fit in it is shared equally.
    """
    if costs.call_s(cells[0]) is None:
        return budget.sweep_left_s / (2 * len(cells))
    left_s, sharing = PLANNED_SHARE * budget.sweep_left_s, 0
    for cell in cells:
        least_s = costs.least_s(cell, peaks=True)
        if least_s > left_s:
            break
        left_s, sharing = left_s - least_s, sharing + 1
    return (costs.call_s(cells[0]) or 0.0) + (left_s / sharing if sharing else 0.0)


def spend_rounds(run: Spending, end: int = MOST_WHOLE) -> None:
    """Take rounds over the cells that are open, until none is, or the budget has no time for one of them.

    Those of the run so far count: there are none behind `end` rounds.
    """
    first = 1 + max((int(key[1]) for key in run.record.keys if key[0] == "cell"), default=0)
    for index in range(first, end):
        measured = run.measured
        chosen = choose_cells(run, measured)
        if not chosen:
            return
        visits_s = _visits_s(run.budget, costs_of(measured), chosen, index)
        before = len(run.record.keys)
        with RoundProcess(run.spec) as process:
            # An implausible cell comes first, as long as the machine is likely to be as it was.
            suspects = [cell for cell in implausible(measured) if cell in chosen]
            others = (cell for cell in chosen if cell not in suspects)
            drawn = drawn_order(others, run.spec.lanes, run.spec.seed, index)
            for done, cell in enumerate(by_lane([*suspects, *drawn], run.spec.lanes, index)):
                run.spec.report(f"round {index + 1}", done, len(chosen))
                run.show(f"round {index + 1}: {cell}")
                if run.budget.fits(visits_s[cell]):
                    run.visit(process, cell, index, visits_s[cell], peaks=False)
        if len(run.record.keys) == before:
            return
        store_spent(run.record, run.budget)


def choose_cells(run: Spending, measured: dict[GridCell, Measurement]) -> list[GridCell]:
    """Return the cells of the next round: as many of the open ones as there is time for, the most wanted first.

    There has to be time for the rounds that a cell lacks for an interval: one that never has it would cost the others
    theirs. Where no cell has that much, those that fit once are chosen.
    """
    suspects = implausible(measured)
    wanted = [cell for cell in measured if is_open(run, cell, measured[cell])]
    wanted.sort(key=lambda cell: _rank(run, cell, measured, cell in suspects))
    wanted = _with_rivals(run.spec, wanted, measured)
    costs = costs_of(measured)
    lacking = {cell: max(1, FEWEST_ROUNDS - len(measured[cell].good)) for cell in wanted}
    return _fitting(run.budget, costs, lacking) or _fitting(run.budget, costs, dict.fromkeys(wanted, 1))


def _with_rivals(spec: GridSpec, cells: Sequence[GridCell], measured: Mapping[GridCell, Measurement]) -> list[GridCell]:
    """The cells, and behind each the same cell of the other engines: what is compared has the same rounds."""
    rivals = {cell: [replace(cell, lane=lane) for lane in spec.lanes] for cell in cells}
    return list(
        dict.fromkeys(
            other
            for cell in cells
            for other in (cell, *rivals[cell])
            if (other in measured and measured[other].good) or other == cell
        )
    )


def _fitting(budget: Budget, costs: Costs, rounds: Mapping[GridCell, int]) -> list[GridCell]:
    """The cells, in the order given, for whose rounds there is time beside those of the cells before them."""
    chosen: list[GridCell] = []
    most, needed_s = 0, 0.0
    for cell, count in rounds.items():
        more_s = count * costs.least_s(cell, peaks=False)
        if budget.fits(needed_s + more_s + max(most, count) * costs.load_s):
            chosen.append(cell)
            most, needed_s = max(most, count), needed_s + more_s
    return chosen


def is_open(run: Spending, cell: GridCell, measured: Measurement) -> bool:
    """Return whether more rounds of a cell are wanted: its side of real time is undecided, or its interval is wide."""
    if not measured.good:
        statuses = [round_.status for round_ in measured.rounds]
        return set(statuses) == {"crashed"} and len(statuses) < MOST_CRASHES
    if len(measured.good) < FEWEST_ROUNDS or half_width(measured.time) > run.spec.precision:
        return True
    return real_time_verdict(cell, measured, "anytime").side == UNDECIDED


def own_passes(run: Spending, share: float = 1.0) -> None:
    """Measure cells in processes of their own that have no first call, or no exact peak: the cheapest first.

    They take no more than a share of the budget, and each only where it fits into what is left.
    """
    end_s = run.budget.spent_s + share * run.budget.total_s
    with RoundProcess(run.spec) as process:
        for cell in lacking_own(run.record, rising_cells(run.spec)):
            costs = costs_of(run.measured)
            needed_s = costs.load_of(cell) + costs.least_s(cell, peaks=True)
            if run.budget.fits(needed_s) and run.budget.spent_s + needed_s <= end_s:
                run.show(f"{cell} in a process of its own")
                run.own_pass(process, cell)
                store_spent(run.record, run.budget)


def _visits_s(budget: Budget, costs: Costs, cells: Sequence[GridCell], index: int) -> dict[GridCell, float]:
    """The seconds of each visit of a round: its call, and an equal part of what the round has beyond its calls."""
    round_s = PLANNED_SHARE * budget.left_s / max(1, WANTED_ROUNDS - index)
    calls_s = {cell: costs.least_s(cell, peaks=False) for cell in cells}
    extra_s = max(0.0, round_s - costs.load_s - sum(calls_s.values())) / len(cells)
    return {cell: call_s + extra_s for cell, call_s in calls_s.items()}


def _rank(
    run: Spending, cell: GridCell, all_measured: Mapping[GridCell, Measurement], is_suspect: bool
) -> tuple[float, ...]:
    """The place of a cell in the queue: implausible, near real time, near the memory limit, few rounds, then wide."""
    measured = all_measured[cell]
    if not measured.good:
        return (3, 0.0)
    call_s, rounds = measured.time.value or 0.0, len(measured.good)
    if is_suspect and rounds == 1:
        return (0, call_s)
    is_near = abs(math.log(call_s / cell.audio_s)) < math.log(NEAR_REAL_TIME) if call_s else False
    if is_near and real_time_verdict(cell, measured, "anytime").side == UNDECIDED:
        return (1, call_s)
    if rounds < FEWEST_ROUNDS:
        return (2, not run.is_near_limit(cell, all_measured), call_s)
    return (4, -half_width(measured.time))


def _leave_out(record: Record, cell: GridCell, call_s: float) -> None:
    place = ("left-out", *cell.key)
    count = sum(key[:-1] == place for key in record.keys)
    record.append(Piece(key=[*place, count], status="ok", data={"call_s": call_s}))
