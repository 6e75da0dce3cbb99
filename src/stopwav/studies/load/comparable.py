"""How two load runs are compared: the capacity of each target, then level by level, by values per round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from stopwav.record import Record
from stopwav.stats import Estimate, minimum_count, nearest_rank
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric, Values
from stopwav.studies.load.judgement import values_of
from stopwav.studies.load.level_table import LevelTable, invalid_reason, level_tables
from stopwav.studies.load.metrics import INVALID, steady_looks
from stopwav.studies.load.results import capacity_estimate, level_name
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.state import target_states
from stopwav.studies.stored_fields import stored_spec

# Lost sessions that an objective without a limit of its own lets pass, as those that are built in do.
FEW_LOST = 0.01
CAPACITY = "capacity"


def _items(record: Record) -> dict[str, ComparableItem]:
    """The targets of a run, then its levels; a search measures other levels where the capacity is another one."""
    spec = stored_spec(LoadSpec, record.header)
    limit = next((item.limit for item in spec.objective.conditions if item.metric == "failed"), FEW_LOST)
    states = target_states(record, spec)
    # A capacity has an interval of its own, which is valid whenever the search stopped.
    capacities = {target: capacity_estimate(spec, states[target]) for target in spec.names}
    return {
        target: ComparableItem(partial(_capacity, capacity), metrics=(CAPACITY,))
        for target, capacity in capacities.items()
    } | {
        level_name(key): ComparableItem(
            partial(_values, level),
            utterances=_completed(level, limit),
            rounds=len(level.rounds),
            metrics=tuple(_OF_ROUND),
            optional=spec.is_search,
        )
        for key, level in level_tables(record).items()
    }


def _capacity(capacity: Estimate, metric: RoundMetric, utterances: set[str]) -> Values:
    return capacity


def _completed(level: LevelTable, limit: float) -> dict[str, str | None] | None:
    """The utterances of a level, with their transcripts; None where too many of its sessions were lost.

    A level that lost its slow sessions looks fast: so the gate finds missing what completed in the baseline.
    """
    if len(level.failures) + level.unfinished > limit * level.sessions:
        return None
    return {utterance.id: utterance.text for utterance in level.table.utterances}


def _values(level: LevelTable, metric: RoundMetric, utterances: set[str]) -> Values:
    if metric.quantity == "time" and (reason := invalid_reason(level)):
        return NoValue(f"invalid: {reason}", INVALID)
    by_round: list[float] = []
    for round_ in level.rounds:
        value = _OF_ROUND[metric.name](level, round_.index)
        if isinstance(value, NoValue):
            return value
        by_round.append(value)
    return by_round or NoValue("no finished round")


def _percentile(family: str, p: float) -> Callable[[LevelTable, int], float | NoValue]:
    def of_round(level: LevelTable, index: int) -> float | NoValue:
        values, sessions = values_of(family, level)
        own = values[level.round[sessions] == index]
        if own.size < minimum_count(p):
            return NoValue(f"needs {minimum_count(p)} events per round, has {own.size}")
        return float(nearest_rank(own, p))

    return of_round


def _memory(level: LevelTable, index: int) -> float | NoValue:
    looks = next(steady_looks(round_) for round_ in level.rounds if round_.index == index)
    return float(np.max(looks[:, 2])) if len(looks) else NoValue("its processes are not visible from here")


_OF_ROUND: Mapping[str, Callable[[LevelTable, int], float | NoValue]] = {
    "word_latency_p50": _percentile("word_latency", 0.50),
    "word_latency_p95": _percentile("word_latency", 0.95),
    "final_latency_p50": _percentile("final_latency", 0.50),
    "server_bytes": _memory,
}
COMPARABLE = Comparable(
    noun="target or level",
    metrics=(
        RoundMetric(CAPACITY, "streams", "capacity"),
        RoundMetric("word_latency_p50", "s", "time"),
        RoundMetric("word_latency_p95", "s", "time"),
        RoundMetric("final_latency_p50", "s", "time"),
        RoundMetric("server_bytes", "B", "size"),
    ),
    items=_items,
    settings=lambda record: {
        name: record.header.spec.get(name) for name in ("pace", "arrivals", "workers", "chunk_ms")
    },
)
