"""The data of the charts of a load run: latency over streams, what the wait consists of, and sessions over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stopwav.record import Result
from stopwav.stats import nearest_rank
from stopwav.studies.load.judgement import values_of
from stopwav.studies.load.level_table import LevelKey, LevelTable, level_tables
from stopwav.studies.load.metrics import steady_looks
from stopwav.studies.load.objective import ObjectiveCondition
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.study import StudyRun

# Dots of the sessions of one level: enough to see a rise, few enough for many levels on one page.
MOST_DOTS = 150
WAITS_PREFIX = "waterfall_"


def load_view(run: StudyRun) -> dict[str, Any]:
    """Return what the charts show, as values that JSON can hold."""
    spec = LoadSpec.model_validate(run.record.header.spec)
    tables = {key: table for key, table in level_tables(run.record).items() if not key[2]}
    conditions = [condition for condition in spec.objective.conditions if condition.percentile is not None]
    capacity = {result.name: result.metrics["capacity"] for result in run.results if result.kind == "target"}
    return {
        "targets": spec.names,
        "conditions": [[condition.metric, condition.limit] for condition in conditions],
        "capacity": {name: [estimate.value, estimate.low, estimate.high] for name, estimate in capacity.items()},
        "curves": [row for condition in conditions for row in _curve(condition, tables, run.results)],
        "waits": list(_waits(run.results)),
        "sessions": [row for key, table in tables.items() for row in _sessions(key, table)],
        "memory": [row for key, table in tables.items() for row in _memory(key, table)],
    }


def _curve(
    condition: ObjectiveCondition, tables: Mapping[LevelKey, LevelTable], results: Sequence[Result]
) -> Iterator[dict[str, Any]]:
    """P50 of a condition's metric and the percentile that it limits, by level; invalid levels have none."""
    verdicts = {
        (r.params["target"], r.params["streams"]): r.params.get("verdict") for r in results if r.kind == "level"
    }
    for (target, streams, _), table in tables.items():
        verdict = verdicts.get((target, streams))
        values, _ = values_of(condition.family, table)
        if verdict == "invalid" or not values.size:
            continue
        assert condition.percentile is not None
        for p in dict.fromkeys((0.50, condition.percentile)):
            yield {
                "metric": condition.metric,
                "target": target,
                "streams": streams,
                "percentile": f"P{round(100 * p)}",
                "seconds": _short(float(nearest_rank(values, p))),
                "verdict": verdict,
            }


def _waits(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    for result in results:
        if result.kind != "level" or result.params.get("faults"):
            continue
        for name, estimate in result.metrics.items():
            if name.startswith(WAITS_PREFIX) and estimate.value is not None:
                yield {
                    "target": result.params["target"],
                    "streams": result.params["streams"],
                    "part": name.removeprefix(WAITS_PREFIX),
                    "ms": _short(1e3 * estimate.value),
                }


def _sessions(key: LevelKey, level: LevelTable) -> Iterator[dict[str, Any]]:
    """Sessions of the first round of a level: when each began, and how long its final text took."""
    values, sessions = values_of("final_latency", level)
    first = level.round[sessions] == level.rounds[0].index
    values, begins_s = values[first], level.begin_s[sessions[first]]
    step = max(1, math.ceil(values.size / MOST_DOTS))
    for at_s, seconds in list(zip(begins_s.tolist(), values.tolist(), strict=True))[::step]:
        yield {"target": key[0], "streams": key[1], "at_s": _short(at_s), "seconds": _short(seconds)}


def _memory(key: LevelKey, level: LevelTable) -> Iterator[dict[str, Any]]:
    looks = steady_looks(level.rounds[0])
    step = max(1, len(looks) // MOST_DOTS)
    for row in looks[::step]:
        yield {"target": key[0], "streams": key[1], "at_s": _short(row[0]), "mb": _short(row[2] / 1e6)}


def _short(value: float) -> float:
    return float(f"{float(np.float64(value)):.4g}")
