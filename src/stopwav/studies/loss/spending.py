"""A loss run with a budget: a first sweep of every loss, then rounds of those that are undecided or not precise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from stopwav.measure.rounds import alternating_order
from stopwav.record import Record
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, half_width, store_spent, verdict_rule
from stopwav.studies.loss.batch_sets import BatchSet, batch_sets
from stopwav.studies.loss.check import check_loss, exact_losses, right_losses
from stopwav.studies.loss.largest_batch import find_largest
from stopwav.studies.loss.metrics import step_values
from stopwav.studies.loss.ranks import round_estimate, standings_of
from stopwav.studies.loss.rounds import load_rounds, measure_batch, open_worker
from stopwav.studies.loss.shared_batches import shared_batches
from stopwav.studies.loss.size import CALLS, START_S
from stopwav.studies.loss.spec import LossSpec

# Calls of a batch in the shortest visit: the first, which is its value, and one for memory.
FEWEST_CALLS = 2
# A visit's calls get this share of its time; the rest is for inputs and the memory pass.
VALUES_SHARE = 0.75
# A visit without time left has this: its first call is its value.
LEAST_VISIT_S = 1e-3
# A round takes a part of what is left, so that there are several: more rounds narrow an interval, longer ones do not.
ROUNDS_AHEAD = 6
# Kept back for the end of the last round and for printing, as a share of the budget.
RESERVE_SHARE = 0.03
# What a call that ends the budget may overrun it by, as a share of it, before its process is stopped.
OVERRUN_SHARE = 0.05
# The search for the largest batch gets what is left above this share of the budget.
LARGEST_SHARE = 0.5


# A loss, a setting, and the numbers of its batches.
Place = tuple[str, BatchSet, tuple[int, ...]]


@dataclass(frozen=True)
class Visit:
    """One process of a loss: the batches of a setting that it goes through, and the time for that."""

    loss: str
    batch_set: BatchSet
    numbers: tuple[int, ...]
    time_s: float


@dataclass
class LossBudget:
    """The budget of a run, and what processes took to start in it."""

    spec: LossSpec
    record: Record
    budget: Budget
    losses: Sequence[str]
    starts_s: dict[str, float] = field(default_factory=dict)

    @property
    def available_s(self) -> float:
        """Seconds that may be planned for."""
        return self.budget.left_s - RESERVE_SHARE * self.budget.total_s

    def show(self, upcoming: str) -> None:
        """Show the results so far, and what is next."""
        self.spec.show(self.record, upcoming, self.budget.left_s)


def spend_budget(spec: LossSpec, record: Record, budget: Budget) -> None:
    """Measure until all is decided and precise, or the time is spent; whatever is there at any moment is an answer."""
    _check_losses(spec, record, budget)
    losses = [name for name in spec.losses if ("absent", name) not in record]
    run = LossBudget(spec, record, budget, losses)
    _sweep(run)
    store_spent(record, budget)
    _find_largest_batches(run)
    while visits := next_round(run):
        index = 1 + max(int(key[1]) for key in record.keys if key[0] == "step")
        for done, visit in enumerate(visits):
            spec.report(f"round {index + 1}", done, len(visits))
            _measure_visit(run, visit, index)
        spec.report(f"round {index + 1}", len(visits), len(visits))
        store_spent(record, budget)
        run.show("the next round")


def _check_losses(spec: LossSpec, record: Record, budget: Budget) -> None:
    """Check every loss against the oracle, within the first sweep."""
    for done, name in enumerate(spec.losses):
        spec.report("checking", done, len(spec.losses))
        if ("absent", name) not in record and ("check", name) not in record:
            limit_s = min(spec.time_limit_s, max(START_S, budget.left_s / 2))
            record.append(check_loss(spec, name, limit_s))
    spec.report("checking", len(spec.losses), len(spec.losses))


def _sweep(run: LossBudget) -> None:
    """Time every loss on at least one batch of every setting: the first call decides on how many more."""
    places = [(loss, batch_set) for batch_set in batch_sets(run.record.header) for loss in run.losses]
    for done, (loss, batch_set) in enumerate(places):
        run.spec.report("first sweep", done, len(places))
        measured = load_rounds(run.record, loss, batch_set)
        numbers = tuple(number for number, rounds in enumerate(measured.rounds) if not rounds)
        share_s = run.budget.sweep_left_s / (len(places) - done)
        # Of a run that is resumed, what has a batch has more only where there is time.
        if numbers and not (measured.indices and share_s < START_S):
            _measure_visit(run, Visit(loss, batch_set, numbers, share_s), 0, after=len(places) - done - 1)
    run.spec.report("first sweep", len(places), len(places))
    run.show("the second round")


def _measure_visit(run: LossBudget, visit: Visit, index: int, after: int = 0) -> None:
    """Measure a loss in a fresh process, batch by batch; `after` visits of the first sweep are still to come.

    In the first sweep batches that do not fit into the visit are left out; later rounds are planned with those that do.
    """
    spec, record, budget = run.spec, run.record, run.budget
    label, batches = visit.batch_set.setting.label, visit.batch_set.batches
    begun_s = budget.spent_s
    with open_worker(spec, visit.loss, visit.batch_set.setting.vocab, _limit_s(run, after)) as worker:
        worker.load()
        run.starts_s[visit.loss] = budget.spent_s - begun_s
        for count, number in enumerate(visit.numbers):
            left_s = visit.time_s - (budget.spent_s - begun_s)
            call_s = _call_s(run, visit, number)
            if index == 0 and count and call_s is not None and FEWEST_CALLS * call_s > left_s:
                return
            visit_s = max(LEAST_VISIT_S, VALUES_SHARE * left_s / (len(visit.numbers) - count))
            place = (visit.loss, label, number)
            measure_batch(spec, record, worker, place, batches[number], index, visit_s, _limit_s(run, after))
            run.show(f"{visit.loss}, round {index + 1}")
            if index and not budget.left_s:
                return


def _limit_s(run: LossBudget, after: int) -> float:
    """The seconds after which a call is stopped: `after` more visits have to begin within the budget."""
    left_s = max(1.0, run.budget.left_s - after * START_S)
    return min(run.spec.time_limit_s, left_s + OVERRUN_SHARE * run.budget.total_s)


def _call_s(run: LossBudget, visit: Visit, number: int) -> float | None:
    """What a call on a batch should take: what it took, or by its cells what others did; None without any."""
    rounds = load_rounds(run.record, visit.loss, visit.batch_set)
    batches = visit.batch_set.batches
    known = {key: median(step_values(of_batch[-1])) for key, of_batch in rounds.good.items()}
    if number in known or not known:
        return known.get(number)
    per_cell = max(seconds / batches[key].padded_cells for key, seconds in known.items())
    return per_cell * batches[number].padded_cells


def next_round(run: LossBudget) -> list[Visit]:
    """Return the visits of the next round: those of open losses, made smaller where time is short; none at the end."""
    if not any(key[0] == "step" for key in run.record.keys):
        return []
    of_sets = [_open_losses(run, batch_set) for batch_set in batch_sets(run.record.header)]
    wanted, undecided = zip(*of_sets, strict=True)
    for places, calls in ((wanted, CALLS), (wanted, FEWEST_CALLS), (undecided, CALLS), (undecided, FEWEST_CALLS)):
        visits = [visit for of_set in places for visit in _priced(run, of_set, calls)]
        least_s = sum(visit.time_s for visit in visits)
        if visits and least_s <= run.available_s:
            # Longer than the least where there is time: more values for each batch.
            factor = max(1.0, min(run.available_s, run.budget.left_s / ROUNDS_AHEAD) / least_s)
            longer = [Visit(visit.loss, visit.batch_set, visit.numbers, factor * visit.time_s) for visit in visits]
            index = 1 + max(int(key[1]) for key in run.record.keys if key[0] == "step")
            return [longer[position] for position in alternating_order(len(longer), index)]
    return []


def _open_losses(run: LossBudget, batch_set: BatchSet) -> tuple[list[Place], list[Place]]:
    """The losses of a setting that need more rounds, and those of them that are part of an undecided pair."""
    record, spec = run.record, run.spec
    measured = {name: load_rounds(record, name, batch_set) for name in run.losses}
    shared = shared_batches(measured, right_losses(record, spec))
    exact = {name: measured[name] for name in exact_losses(record, spec) if name in measured}
    pairs = standings_of(exact, shared, verdict_rule(record)).undecided
    undecided = {name for pair in pairs for name in pair}
    wanted = {
        name
        for name in run.losses
        if name in shared.timed
        and (
            name in undecided
            or len(measured[name].indices) < FEWEST_ROUNDS
            # What fails in some rounds would only do so again.
            or (
                name in shared.whole
                and half_width(round_estimate(measured[name].only(shared.numbers))) > spec.precision
            )
        )
    }
    ordered = [(name, batch_set, shared.numbers) for name in run.losses if name in wanted]
    return ordered, [place for place in ordered if place[0] in undecided]


def _priced(run: LossBudget, places: Sequence[Place], calls: int) -> Iterator[Visit]:
    """The visits of these losses, each with the time that so many calls on every batch take."""
    for loss, batch_set, numbers in places:
        visit = Visit(loss, batch_set, numbers, 0.0)
        calls_s = sum(calls * (_call_s(run, visit, number) or 0.0) for number in numbers)
        yield Visit(loss, batch_set, numbers, run.starts_s.get(loss, START_S) + calls_s)


def _find_largest_batches(run: LossBudget) -> None:
    for done, name in enumerate(run.losses if run.spec.largest_batch else []):
        run.spec.report("largest batch", done, len(run.losses))
        find_largest(run.spec, run.record, name, partial(_search_left_s, run, (done + 1) / len(run.losses)))


def _search_left_s(run: LossBudget, share: float) -> float:
    """The seconds that are left to search in, where the losses up to here get this share of them."""
    return run.budget.left_s - (1 - LARGEST_SHARE * share) * run.budget.total_s
