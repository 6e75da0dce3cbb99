"""The engines of a round, each in one fresh process, all alive together: they take turns at lengths and at inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.rounds import Round, alternating_order
from stopwav.measure.sampler import MIN_VALUE_S
from stopwav.record import Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.budget import Budget
from stopwav.studies.compare.passes import measure_sample, warm_worker, within
from stopwav.studies.compare.pieces import length_place
from stopwav.studies.resume import AGAIN
from stopwav.studies.stored_fields import readable
from stopwav.studies.stored_rounds import round_to_piece, skip_reason
from stopwav.studies.worker import MAX_DEATHS, Worker

# A turn of short calls is several values: the first after another engine's turn finds caches that are not its own.
TURN_S = 0.05
# Values interleaved so many times have a median that more of them in the same process hardly move.
MOST_TURNS = 10


class EnginesDoNotFit(Exception):
    """An engine ran out of memory while others were loaded: it has to be measured alone."""


@dataclass(frozen=True)
class Group:
    """The engines of one round and their processes, by name; `index` is the round."""

    record: Record
    index: int
    workers: Mapping[str, Worker]
    plan: Plan
    budget: Budget
    # Whether visits are sized by time, or are the whole samples of a fixed plan.
    budgeted: bool
    # What a new process is warmed up with.
    utterance: Utterance


def warm_group(group: Group) -> None:
    """Load every engine and warm its process up, one after the other; where that fails, the next visit tries again."""
    for name in _in_turn(list(group.workers), group.index):
        outcome = warm_worker(
            group.record, group.workers[name], (group.index, name), group.utterance, group.plan, group.budget
        )
        _check_fit(group, outcome)


def take_length(group: Group, frames: int, position: int, share_s: float) -> float:
    """Measure a length that the round lacks, in `share_s` seconds where there is a budget; return those of a call.

    That is the sum over the engines.
    """
    names = [name for name in _in_turn(list(group.workers), group.index) if _is_missing(group, name, frames)]
    for worker in group.workers.values():
        # It may die at each length and as it warms up again, and is started again for the next.
        worker.max_deaths = MAX_DEATHS + 2 * (position + 1)
    warm_group(group)
    if not group.budgeted:
        for name in names:
            _take_sample(group, name, frames)
        return 0.0
    calls_s = _take_turns(group, names, frames, share_s)
    throttled = [name for name in names if _is_missing(group, name, frames)]
    if throttled and group.budget.fits(calls_s):
        _take_turns(group, throttled, frames, share_s)
    return calls_s


def take_input(group: Group, utterance: Utterance, place: int, number: int) -> bool:
    """Have each engine transcribe an input, in turn; return whether there was time for all of them."""
    return all(
        measure_sample(
            group.record, group.workers[name], ("sample", group.index, name, place), utterance, group.plan, group.budget
        )
        for name in _in_turn(list(group.workers), number + group.index)
    )


def _in_turn(names: Sequence[str], number: int) -> list[str]:
    return [names[position] for position in alternating_order(len(names), number)]


def _is_missing(group: Group, name: str, frames: int) -> bool:
    """Whether a length is to be measured; one of a fixed plan that is not to be tried again is stored as skipped."""
    place = length_place(name, frames)
    with readable(group.record, f"rounds of {place.kind} {place.parts}", AGAIN):
        previous = place.rounds(group.record)
    own = [round_ for round_ in previous if round_.index == group.index]
    if own:
        # A throttled round is repeated once; both are kept.
        return len(own) == 1 and own[0].throttled
    reason = skip_reason(previous)
    if reason and not group.budgeted:
        _store(group, name, frames, Round(group.index, "skipped", reason))
    return not reason


def _take_sample(group: Group, name: str, frames: int) -> None:
    """Take the whole sample of a fixed plan at one length."""
    while _is_missing(group, name, frames):
        worker = group.workers[name]
        outcome = worker.call(
            "measure_length", frames, group.plan.seed, group.plan, time_limit_s=group.plan.time_limit_s
        )
        _store_outcome(group, name, frames, outcome)


def _take_turns(group: Group, names: Sequence[str], frames: int, share_s: float) -> float:
    """Take values of one length in turn, as many as there is time for; return the seconds of a call of each engine."""
    begin_s = group.budget.spent_s
    first_s: dict[str, float] = {}
    for name in names:
        outcome = _ask(group, name, frames, "open_length", frames, group.plan.seed)
        if outcome.ok:
            first_s[name] = outcome.value
    calls_s, turn_s = sum(first_s.values()), sum(max(seconds, TURN_S) for seconds in first_s.values())
    present = list(first_s)
    for turn in range(MOST_TURNS):
        elapsed_s = group.budget.spent_s - begin_s
        if not present or elapsed_s + turn_s > share_s or not group.budget.fits(turn_s):
            break
        for name in _in_turn(present, group.index + turn):
            count = max(1, round(TURN_S / max(first_s[name], MIN_VALUE_S)))
            if not _ask(group, name, frames, "take_values", count).ok:
                present = [other for other in present if other != name]
    for name in present:
        if (outcome := _ask(group, name, frames, "close_length")).ok:
            _store_outcome(group, name, frames, outcome)
    return calls_s


def _ask(group: Group, name: str, frames: int, method: str, *arguments: object) -> Outcome:
    """Return the outcome of a call; a failure is stored, and ends the process: the next length has a new one."""
    limit_s = within(group.budget, group.plan.time_limit_s)
    outcome = group.workers[name].call(method, *arguments, time_limit_s=limit_s)
    # What the end of the budget cut short is no result.
    cut_short = outcome.status == "timeout" and limit_s < group.plan.time_limit_s
    if not outcome.ok and not cut_short:
        _store_outcome(group, name, frames, outcome)
    return outcome


def _store_outcome(group: Group, name: str, frames: int, outcome: Outcome) -> None:
    if outcome.ok:
        _store(group, name, frames, replace(outcome.value, index=group.index))
        return
    _check_fit(group, outcome)
    # A device that failed once may fail at everything from then on.
    group.workers[name].close()
    _store(group, name, frames, Round(group.index, outcome.status, outcome.message, outcome.last_words))


def _store(group: Group, name: str, frames: int, round_: Round) -> None:
    place = length_place(name, frames)
    attempt = sum(earlier.index == round_.index for earlier in place.rounds(group.record))
    group.record.append(round_to_piece(place.key(round_.index, attempt), round_))


def _check_fit(group: Group, outcome: Outcome) -> None:
    if outcome.status == "oom" and len(group.workers) > 1:
        raise EnginesDoNotFit
