"""The order of losses: a verdict on each pair from the rounds that both have, and the rank that follows from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import geometric_mean, median

from stopwav.measure.rounds import Round
from stopwav.stats import Estimate, Rule, rule_text, summarise_rounds
from stopwav.stats.rule import fewest_rounds
from stopwav.stats.verdict import Verdict, paired_verdict
from stopwav.studies.loss.metrics import step_values
from stopwav.studies.loss.rounds import LossRounds
from stopwav.studies.loss.shared_batches import SharedBatches

# The code of a rank that is not there because some pair has no interval yet: it names no winner.
NO_INTERVAL = "no-interval"
CONFIDENCE = 0.95
Pair = tuple[str, str]


@dataclass(frozen=True)
class Standings:
    """The verdict on each pair of losses that are compared: `slower` says that the second takes longer."""

    verdicts: Mapping[Pair, Verdict]
    # The losses that completed all of their rounds: these are ahead of all others.
    whole: frozenset[str]
    # How many rounds each has.
    rounds: Mapping[str, int]
    rule: Rule

    @property
    def names(self) -> list[str]:
        """The losses that are compared."""
        return list(dict.fromkeys(name for pair in self.verdicts for name in pair))

    @property
    def undecided(self) -> dict[Pair, Verdict]:
        """The pairs that more rounds may decide; where one did more of the work, it is ahead whatever the times are."""
        return {
            (a, b): verdict
            for (a, b), verdict in self.verdicts.items()
            if verdict.kind == "undecided"
            and (verdict.more_rounds is not None or verdict.low is None)
            and ((a in self.whole) == (b in self.whole) or self.is_unknown((a, b)))
        }

    def is_unknown(self, pair: Pair) -> bool:
        """Whether nothing can be said of a pair: too few rounds for an interval, and neither did more of their work."""
        a, b = pair
        if self.verdicts[pair].n >= fewest_rounds(self.rule, CONFIDENCE):
            return False
        return (a in self.whole) == (b in self.whole) or min(self.rounds[a], self.rounds[b]) < 2

    def is_ahead(self, a: str, b: str) -> bool:
        """Whether loss a did more of the work than b, or the same and faster beyond doubt."""
        if (a in self.whole) != (b in self.whole):
            return a in self.whole
        if (a, b) in self.verdicts:
            return self.verdicts[a, b].kind == "slower"
        return self.verdicts[b, a].kind == "faster"


def standings_of(measured: Mapping[str, LossRounds], shared: SharedBatches, rule: Rule) -> Standings:
    """Return the verdicts on these losses, as far as they have a time, from the rounds of the shared batches."""
    locations = {
        name: round_locations(rounds.only(shared.numbers)) for name, rounds in measured.items() if name in shared.timed
    }
    verdicts = {}
    for a, b in combinations(locations, 2):
        both = sorted(locations[a].keys() & locations[b].keys())  # on the same machine
        first, second = ([locations[name][index] for index in both] for name in (a, b))
        verdicts[a, b] = paired_verdict(first, second, confidence=CONFIDENCE, rule=rule)
    counts = {name: len(measured[name].indices) for name in locations}
    return Standings(verdicts, shared.whole, counts, rule)


def ranks(measured: Mapping[str, LossRounds], shared: SharedBatches, rule: Rule) -> dict[str, Estimate]:
    """Return the rank of each of these losses that has a time: 1 plus the number of losses that are ahead of it.

    Ahead is a loss that is faster beyond doubt on the shared batches. A loss of which a round failed is never ahead of
    one that did all the work, and that one always ahead of it. Losses without a clear difference share a rank. Where a
    pair has no interval, as from one round, neither of the two has a rank. Where a loss has no round, none has.
    """
    standings = standings_of(measured, shared, rule)
    names = [name for name in measured if name in shared.timed]
    awaited = next((name for name, rounds in measured.items() if not rounds.indices), None)
    if awaited is not None:
        note = f"not ranked yet: {awaited} has no round"
        return {name: Estimate(None, n=len(names), note=note, code=NO_INTERVAL) for name in names}
    ranked = {}
    for name in names:
        unknown = [
            verdict for pair, verdict in standings.verdicts.items() if name in pair and standings.is_unknown(pair)
        ]
        if unknown:
            reason = unknown[0].note or "the verdict has no interval"
            ranked[name] = Estimate(None, n=len(names), note=f"not ranked yet: {reason}", code=NO_INTERVAL)
            continue
        ahead = [other for other in names if other != name and standings.is_ahead(other, name)]
        note = f"losses without a clear difference share a rank; {rule_text(rule, CONFIDENCE)}"
        if name not in shared.whole:
            note += "; below every loss that completed all rounds"
        ranked[name] = Estimate(float(1 + len(ahead)), n=len(names), note=note)
    return ranked


def round_locations(rounds: LossRounds) -> dict[tuple[int, tuple[str, ...]], float]:
    """Return the geometric mean of the medians of the batches, for each round in which all of them completed.

    By the number of the round and the machine of each batch: they are several where one was lost meanwhile.

    Geometric, so that a loss is compared by its ratio to another on every batch, and not by the longest batch alone.
    """
    by_index: dict[int, list[Round]] = {}
    for of_batch in rounds.good.values():
        for round_ in of_batch:
            by_index.setdefault(round_.index, []).append(round_)
    return {
        (index, tuple(round_.machine for round_ in of_round)): geometric_mean(
            median(step_values(round_)) for round_ in of_round
        )
        for index, of_round in by_index.items()
        if len(of_round) == len(rounds.good)
    }


def round_estimate(rounds: LossRounds) -> Estimate:
    """Return the time of a step with its interval over rounds: what more rounds make narrower, unlike other batches."""
    locations = round_locations(rounds)
    return summarise_rounds([[location] for location in locations.values()]) if locations else Estimate(None)
