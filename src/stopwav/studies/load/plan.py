"""How long a level is measured: a short look at first, and once it matters long enough for the objective to be sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stopwav.stats.exceedance import Share
from stopwav.studies.load.objective import Objective
from stopwav.studies.load.schedule import ramp_length_s, schedule_level
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.target import LevelPlan, fault_plans

# The first look at a level: long enough that a server which falls behind shows it, and that some sessions end.
LOOK_S = 8.0
# A longer look may take this share of the budget; what is not sure after it gets another round.
LONGEST_SHARE = 0.3
# Sessions are waited for at least so long after their audio, and twice as long as the objective allows.
PATIENCE_S = 3.0
# With --thorough a level is held for a minute.
THOROUGH_S = 60.0


def sessions_needed(objective: Objective) -> int:
    """Return the sessions of which none may be late so that the objective surely holds."""
    limits = [1 - item.percentile for item in objective.conditions if item.percentile is not None]
    return max((_fewest(limit) for limit in limits), default=30)


def patience_s(objective: Objective) -> float:
    """Return how long the text of a session is waited for after the end of its audio."""
    return max(PATIENCE_S, 2 * objective.longest_limit_s)


def steady_s(
    spec: LoadSpec, streams: int, lengths_s: Sequence[float], rounds: int, sessions: int, failing: bool = False
) -> float:
    """Return how long the part of a level that counts lasts in its next round.

    `sessions` were measured before. Where these show that it is `failing`, another look confirms it.
    """
    if spec.soak_s is not None:
        return spec.soak_s
    if not spec.is_budgeted:
        return THOROUGH_S
    if rounds == 0 or failing:
        return min(LOOK_S, LONGEST_SHARE * spec.total_s)
    mean_s = sum(lengths_s) / len(lengths_s)
    # Some more than are needed: a few are late by chance.
    missing = max(0.5, 1.2 - sessions / sessions_needed(spec.objective)) * sessions_needed(spec.objective)
    return min(max(LOOK_S, missing * mean_s / streams), LONGEST_SHARE * spec.total_s)


def plan_level(
    spec: LoadSpec, streams: int, lengths_s: Sequence[float], steady: float, round_: int, faulty: bool
) -> LevelPlan:
    """Return a level as it is measured; sessions of one seed, level and round always begin alike."""
    waited_s = patience_s(spec.objective)
    # With and without faults, sessions begin alike.
    seed = hash((spec.seed, streams, round_))
    schedule = schedule_level(streams, lengths_s, steady, waited_s, spec.arrivals, seed)
    cut_s = schedule.steady_end_s + max(lengths_s) + waited_s
    return LevelPlan(streams, schedule, cut_s, fault_plans(streams, seed, schedule) if faulty else ())


def level_s(spec: LoadSpec, lengths_s: Sequence[float], steady: float) -> float:
    """Return the most that a level takes, in seconds."""
    ramp_s = ramp_length_s(lengths_s, spec.arrivals)
    return ramp_s + steady + max(lengths_s) + patience_s(spec.objective) + 2.0


def _fewest(limit: float) -> int:
    low, high = 1, 1_000_000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if Share(0.0, float(middle)).side_of(limit) == "below" else (middle + 1, high)
    return math.ceil(low)
