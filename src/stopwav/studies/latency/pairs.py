"""Two engines of one run, in the rounds and utterances that both have, and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD, Rule
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import spent_s, time_text, verdict_rule
from stopwav.studies.comparable import NoValue, RoundMetric, ask_metric
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.comparable import ComparedEngine, compared_engine, values_by_round

# What a listener feels: word latency or, where no words are timed, the wait of the sample that waits longest; its P50
# where a round has too few chunks for a P95.
_FELT = ("word_latency_p50", "longest_wait_p95", "longest_wait_p50")


@dataclass(frozen=True)
class EnginePair:
    """Two engines, in the rounds and utterances that both have."""

    a: ComparedEngine
    b: ComparedEngine
    utterances: tuple[str, ...]


@dataclass(frozen=True)
class EngineVerdict:
    """One engine against the first of the run: the changes of what a listener feels and of real-time factor."""

    engine: str
    felt: Change
    rtf: Change

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {"engine": self.engine, "felt": self.felt.to_json(), "rtf": self.rtf.to_json()}


@dataclass(frozen=True)
class EngineVerdicts:
    """The engines of a run against the first of them; all verdicts together have one confidence of 95 %."""

    base: str
    verdicts: tuple[EngineVerdict, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as `--json` prints them."""
        return {"base": self.base, "verdicts": [verdict.to_json() for verdict in self.verdicts]}


def engine_verdicts(record: Record) -> EngineVerdicts | None:
    """Return which engines of a run are faster than the first; None where there is nothing to compare.

    A run that explains has verdicts on its settings instead.
    """
    names = engine_names(record.header.spec["engines"])
    if record.header.spec.get("knobs") or len(names) < 2:
        return None
    base = compared_engine(record, names[0])
    pairs = {name: pair_engines(base, compared_engine(record, name)) for name in names[1:]}
    pairs = {name: pair for name, pair in pairs.items() if pair.utterances}
    if not pairs:
        return None
    metrics, rule = (felt_metric(list(pairs.values())), RoundMetric("rtf", "", "time")), verdict_rule(record)
    answers = iter(answer_all([ask_pair(pair, metric, rule) for pair in pairs.values() for metric in metrics]))
    return EngineVerdicts(names[0], tuple(EngineVerdict(name, next(answers), next(answers)) for name in pairs))


def more_time(record: Record, more_rounds: int) -> str:
    """Return how much longer a budgeted run would take for more rounds, and how to give it that; else nothing."""
    rounds = {key[1] for key in record.keys if key[0] == "stream"}
    spent = spent_s(record)
    if record.header.spec.get("rounds") is not None or not rounds or not spent:
        return ""
    more_s = more_rounds * spent / len(rounds)
    return f", about {time_text(more_s)} more: --resume --budget {math.ceil((spent + more_s) / 60)}min"


def pair_engines(a: ComparedEngine, b: ComparedEngine) -> EnginePair:
    """Return both engines, cut to the rounds that both have: round i of one is paired with round i of the other.

    An utterance that they streamed on different machines in a round is left out: it says nothing of the engines.
    """
    rounds = sorted(set(a.rounds) & set(b.rounds))
    a, b = (replace(engine, rounds=rounds) for engine in (a, b))
    transcripts = b.transcripts
    common = (name for name, text in a.transcripts.items() if name in transcripts and transcripts[name] == text)
    of_a, of_b = a.machines, b.machines
    apart = {name for index, name in of_a if of_a[index, name] != of_b.get((index, name), of_a[index, name])}
    return EnginePair(a, b, tuple(name for name in common if name not in apart))


def felt_metric(pairs: Sequence[EnginePair]) -> RoundMetric:
    """Return the metric of what a listener feels that all pairs have."""
    for metric in map(time_metric, _FELT):
        chosen = [(engine, set(pair.utterances)) for pair in pairs for engine in (pair.a, pair.b)]
        if not any(isinstance(values_by_round(engine, metric, names), NoValue) for engine, names in chosen):
            return metric
    # The wait of a sample is not visible behind a protocol.
    is_remote = any(engine.table.network_s is not None for pair in pairs for engine in (pair.a, pair.b))
    return time_metric(_FELT[0 if is_remote else -1])


def time_metric(name: str) -> RoundMetric:
    """Return a metric in seconds."""
    return RoundMetric(name, "s", "time")


def ask_pair(pair: EnginePair, metric: RoundMetric, rule: Rule) -> Question:
    """Return the question whether a metric of two engines differs."""
    a, b = (values_by_round(engine, metric, set(pair.utterances)) for engine in (pair.a, pair.b))
    return ask_metric(metric, a, b, DEFAULT_THRESHOLD, paired=True, rule=rule)
