"""A step run with a budget: a first round of as many steps as it has time for, then rounds of the same steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from stopwav.record import Record
from stopwav.stats import summarise_rounds
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, half_width, store_spent
from stopwav.studies.step.completed_steps import completed_steps, full_rounds
from stopwav.studies.step.rounds import StepProcess, has_failed, measure_round
from stopwav.studies.step.rows import make_rows
from stopwav.studies.step.size import START_S
from stopwav.studies.step.spec import STEPS, StepSpec
from stopwav.studies.step.step_runner import make_runner
from stopwav.studies.worker import Worker

# Kept back for the end of the last round and for printing, as a share of the budget.
RESERVE_SHARE = 0.03
# What a step that ends the budget may overrun it by, as a share of it, before its process is stopped.
OVERRUN_SHARE = 0.05
# A round is begun where the last one, taking so much longer, would fit.
ROOM = 1.1
# Rows with a smaller share are not main ones: nobody acts on their interval.
MAIN_SHARE = 0.1
# The memory pass watches every tensor, and takes about this much longer than a clean step.
MEMORY_STEPS = 1.5
# A clean and a profiled step of a batch, and one more to warm up where there is time.
LEAST_STEPS, USUAL_STEPS = 2, 3


class BudgetRound:
    """A round of a budget: its steps from the middle of the lengths outwards, as many as it has time for."""

    def __init__(self, spec: StepSpec, record: Record, budget: Budget, index: int, time_s: float) -> None:
        self._spec, self._record, self._budget, self._index = spec, record, budget, index
        self._end_s = budget.spent_s + time_s
        self.numbers = _numbers(spec, record, index)
        self.step_s: float | None = None

    @property
    def left_s(self) -> float:
        """Seconds that are left of the round."""
        return self._end_s - self._budget.spent_s

    @property
    def limit_s(self) -> float:
        """Seconds after which a call is stopped: those of the budget, and of its overrun."""
        overrun_s = OVERRUN_SHARE * self._budget.total_s
        return min(self._spec.time_limit_s, max(1.0, self._budget.left_s) + overrun_s)

    @property
    def budget_left_s(self) -> float | None:
        """Seconds that are left of the budget."""
        return self._budget.left_s

    def warm_up_s(self) -> float | None:
        """Return the time for warming up: what the steps and the memory pass need is left over by the runner."""
        return max(0.0, self.left_s)

    def keeps(self, status: str) -> bool:
        """Whether how a call ended is a result: once there is a step, that the budget ended it is none."""
        has_step = any(key[0] == "step" for key in self._record.keys)
        return not (has_step and status == "timeout" and self.limit_s < self._spec.time_limit_s)

    def learn(self, step_s: float) -> None:
        """Note how long a step takes."""
        self.step_s = step_s

    def has_time(self, done: int) -> bool:
        """Whether there is time for another step; the first one, and in later rounds all of the first's, have it."""
        if done == 0 or self.step_s is None or self._index:
            return done == 0 or self._budget.left_s > 0
        return (LEAST_STEPS + MEMORY_STEPS) * self.step_s <= self.left_s

    def warms(self, remaining: int) -> bool:
        """Whether there is time to warm each of the remaining batches up."""
        return self.step_s is not None and (USUAL_STEPS * remaining + MEMORY_STEPS) * self.step_s <= self.left_s


def open_worker(spec: StepSpec, limit_s: float) -> Worker:
    """Return the process of a round, which has so many seconds to load."""
    # It reports no progress, and what does so here cannot be sent to it.
    return Worker(make_runner, (spec.model_copy(update={"progress": None}),), "model", limit_s)


def spend_budget(
    spec: StepSpec,
    record: Record,
    budget: Budget,
    open_process: Callable[[StepSpec, float], AbstractContextManager[StepProcess]] = open_worker,
) -> None:
    """Measure until step time and main rows are precise, or the time is spent; at any moment there is an answer.

    `spec` has its size.
    """
    index, took_s = 0, _earlier_round_s(record)
    while True:
        if index:
            available_s = budget.left_s - RESERVE_SHARE * budget.total_s
            if took_s is None or ROOM * took_s > available_s or is_precise(record, spec.precision):
                return
        time_s = (took_s or 0.0) if index else budget.sweep_left_s
        begun_s, before = budget.spent_s, len(record.keys)
        spec.report("loading the model", 0, 1)
        with open_process(spec, min(spec.time_limit_s, max(START_S, budget.left_s))) as process:
            measure_round(spec, record, index, process, BudgetRound(spec, record, budget, index, time_s))
        if len(record.keys) > before:
            took_s = max(took_s or 0.0, budget.spent_s - begun_s) if index else budget.spent_s - begun_s
            store_spent(record, budget)
        elif index:
            return
        spec.show(record, f"round {index + 2}", budget.left_s)
        if not completed_steps(record).pieces or has_failed(record, index):
            return  # another process would only say so again
        index = 1 + max(int(key[1]) for key in record.keys if key[0] == "ready")


def is_precise(record: Record, precision: float) -> bool:
    """Return whether step time and the shares of the main rows have intervals over rounds that are narrow enough."""
    steps = full_rounds(completed_steps(record))
    indices = sorted(set(steps.rounds))
    ready = next((piece for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"), None)
    if len(indices) < FEWEST_ROUNDS or ready is None:
        return False
    rounds = np.array(steps.rounds)

    def by_round(seconds: np.ndarray) -> list[float]:
        return [float(seconds[rounds == index].sum()) for index in indices]

    whole = by_round(steps.whole)
    series = [by_round(steps.clean())]
    for row in make_rows(steps, ready.data, {}):
        shares = [total / all_s for total, all_s in zip(by_round(row.total), whole, strict=True)]
        if min(shares) > MAIN_SHARE:
            series.append(shares)
    return all(half_width(summarise_rounds([[value] for value in values])) <= precision for values in series)


def _numbers(spec: StepSpec, record: Record, index: int) -> list[int]:
    """The steps of a round: in the first all, the middle ones first; in later ones those that the first completed."""
    count = spec.steps or STEPS
    if index:
        return [number for number in range(count) if ("step", 0, number) in record]
    return sorted(range(count), key=lambda number: abs(number - (count - 1) / 2))


def _earlier_round_s(record: Record) -> float | None:
    """What a round took before the run was interrupted, by its pieces; None without any."""
    steps = completed_steps(record)
    ready = next((piece.data for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"), None)
    if ready is None or not steps.pieces:
        return None
    first = [own for own, index in zip(steps.clean(), steps.rounds, strict=True) if index == min(steps.rounds)]
    warmup_s = float(ready["first_s"]) + float(sum(ready["warmup_s"]))
    return START_S + warmup_s + USUAL_STEPS * float(sum(first))
