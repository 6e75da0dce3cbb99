"""What a loss run leaves open: the pairs without a verdict, and how many more rounds and how much time would decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.record import Record
from stopwav.stats import rule_text
from stopwav.studies.budget import spent_s, time_text, verdict_rule
from stopwav.studies.loss.batch_sets import batch_sets
from stopwav.studies.loss.check import exact_losses, right_losses
from stopwav.studies.loss.ranks import CONFIDENCE, standings_of
from stopwav.studies.loss.rounds import load_rounds
from stopwav.studies.loss.shared_batches import shared_batches
from stopwav.studies.loss.spec import LossSpec

# Pairs that are named; a table of ten losses has 45.
MOST_PAIRS = 5


def verdict_text(record: Record) -> str:
    """Return the rule by which the losses of a run are ordered."""
    return rule_text(verdict_rule(record), CONFIDENCE)


def open_text(record: Record) -> list[str]:
    """Return a sentence on the pairs that are undecided, with the rounds and the time that should decide them."""
    # A pair is named once, whatever the settings that it is undecided in.
    by_pair: dict[tuple[str, str], list[int | None]] = {}
    for a, b, rounds in _undecided(record):
        by_pair.setdefault((a, b), []).append(rounds)
    if not by_pair:
        return []
    named = ", ".join(f"{a} and {b} {_more(needed)}" for (a, b), needed in list(by_pair.items())[:MOST_PAIRS])
    if len(by_pair) > MOST_PAIRS:
        named += f", and {_counted(len(by_pair) - MOST_PAIRS, 'more pair')}"
    known = [rounds for needed in by_pair.values() for rounds in needed if rounds is not None]
    return [f"Undecided: {named}{_time_needed(record, max(known)) if known else ''}"]


def _more(needed: Sequence[int | None]) -> str:
    where = f"in {len(needed)} settings " if len(needed) > 1 else ""
    known = [rounds for rounds in needed if rounds is not None]
    return f"{where}({_counted(max(known), 'more round') if known else 'too close for any number of rounds'})"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _undecided(record: Record) -> Iterator[tuple[str, str, int | None]]:
    """Each pair of exact losses without a verdict, and how many more rounds should decide it."""
    spec = LossSpec(**record.header.spec)
    right, exact = right_losses(record, spec), exact_losses(record, spec)
    for batch_set in batch_sets(record.header):
        measured = {name: load_rounds(record, name, batch_set) for name in spec.losses}
        standings = standings_of(
            {name: measured[name] for name in exact}, shared_batches(measured, right), verdict_rule(record)
        )
        for (a, b), verdict in standings.verdicts.items():
            # Where one failed on some rounds, the other is ahead whatever the times are.
            if verdict.kind == "undecided" and (a in standings.whole) == (b in standings.whole):
                yield a, b, verdict.more_rounds


def _time_needed(record: Record, rounds: int) -> str:
    """The time of so many more rounds, by what those that are there took, and how to go on."""
    total_s = spent_s(record)
    done = len({key[1] for key in record.keys if key[0] == "step"})
    if not total_s or not done:
        return ""
    more_s = rounds * total_s / done
    budget_min = -(-(total_s + more_s) // 60)
    return f"; about {time_text(more_s)} more: --resume --budget {budget_min:.0f}min"
