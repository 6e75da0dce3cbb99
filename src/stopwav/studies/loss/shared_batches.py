"""The batches that losses are compared on: those that each completed, so that all times are of the same work."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stopwav.studies.loss.rounds import LossRounds

# A loss that would leave fewer than this share of the batches to compare on is left out itself: one that fails nearly
# everywhere says little, and would take from the others what they have.
FEWEST_SHARED = 0.5


@dataclass(frozen=True)
class SharedBatches:
    """The batches that times, memory and ranks are of, and how far each loss got."""

    numbers: tuple[int, ...]
    # The losses that completed all of these.
    timed: frozenset[str]
    # Of them, those of which no round failed on any batch that one of the others completed.
    whole: frozenset[str]


def shared_batches(measured: Mapping[str, LossRounds], right: Collection[str]) -> SharedBatches:
    """Return the batches that the losses share.

    The loss that completed most batches comes first. Each other joins it, in the order of how many it completed, where
    it failed on no more than half of the first one's batches; one that had time for fewer leaves only these. Only
    losses that match the oracle decide, unless there is none; any other has times where it completed all of the shared
    batches.
    """
    completed = {name: frozenset(rounds.good) for name, rounds in measured.items() if rounds.good}
    deciding = [name for name in completed if name in right] or list(completed)
    by_count = sorted(deciding, key=lambda name: -len(completed[name]))
    shared = completed[by_count[0]] if by_count else frozenset()
    fewest = FEWEST_SHARED * len(shared)
    for name in by_count:
        # Batches that it was not tried on, for want of time, do not speak against it.
        tried = frozenset(number for number in shared if measured[name].rounds[number])
        remaining = shared & completed[name]
        if remaining and len(remaining) >= fewest - len(shared - tried):
            shared = remaining
    timed = frozenset(name for name, numbers in completed.items() if shared <= numbers)
    reached = frozenset[int]().union(*(completed[name] for name in timed if name in deciding))
    whole = frozenset(name for name in timed if _is_whole(measured[name], reached))
    return SharedBatches(tuple(sorted(shared)), timed, whole)


def _is_whole(rounds: LossRounds, numbers: Collection[int]) -> bool:
    """Whether every round of these batches completed, as far as they were tried."""
    return all(round_.status == "ok" for number in numbers for round_ in rounds.rounds[number])
