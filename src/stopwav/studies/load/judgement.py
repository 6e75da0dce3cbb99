"""Whether an objective holds at a level, condition by condition, and what of that is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from stopwav.speech.events import Floats, Integers
from stopwav.stats import nearest_rank, t_quantile
from stopwav.stats.exceedance import Share, Side, clustered_share
from stopwav.studies.load.level_table import LevelTable, invalid_reason
from stopwav.studies.load.objective import EVENTS, Objective, ObjectiveCondition
from stopwav.studies.load.search import LevelState

# A server that falls behind gets slower and slower. A rise of less than this, over all of a level, is not looked at:
# a listener does not feel it, and waits differ by more than that from session to session.
LEAST_RISE_S = 0.2
# A slope of fewer sessions is chance.
FEWEST_FOR_SLOPE = 8
# Sessions of one process are disturbed together: whatever a single round shows is confirmed in a fresh one.
FEWEST_ROUNDS = 2

Verdict = Literal["holds", "fails", "unstable", "invalid"]


@dataclass(frozen=True)
class Judged:
    """One condition at a level: its value, on which side of the limit it is, and whether that is sure."""

    condition: ObjectiveCondition
    value: float | None
    holds: bool
    side: Side
    note: str = ""
    # The share of its events that were not within the limit, with the events behind it; None of a share itself.
    over: float | None = None
    events: int = 0


@dataclass(frozen=True)
class Judgement:
    """An objective at a level: the verdict, whether it is sure, its conditions, and why the level is invalid or so."""

    verdict: Verdict
    sure: bool
    conditions: tuple[Judged, ...]
    reason: str = ""
    # Seconds by which latency rises in the course of the level, where that is shown.
    rise_s: float | None = None

    @property
    def shown_failing(self) -> bool:
        """Whether the sessions so far show that the objective does not hold."""
        return self.verdict == "unstable" or any(judged.side == "above" for judged in self.conditions)

    def state(self, rounds: int) -> LevelState:
        """Return what a search has to know."""
        return LevelState(self.verdict == "holds", self.sure, rounds, self.shown_failing)


def judge(objective: Objective, level: LevelTable) -> Judgement:
    """Return whether an objective holds at a level."""
    conditions = tuple(judge_condition(condition, level) for condition in objective.conditions)
    reason = invalid_reason(level)
    if reason:
        return Judgement("invalid", False, conditions, reason)
    confirmed = len(level.rounds) >= FEWEST_ROUNDS
    rise_s = latency_rise(level)
    if rise_s is not None:
        reason = f"latency rises by {rise_s:.1f} s in the course of the level"
        return Judgement("unstable", confirmed, conditions, reason, rise_s)
    if all(judged.holds for judged in conditions):
        return Judgement("holds", confirmed and all(judged.side == "below" for judged in conditions), conditions)
    return Judgement("fails", confirmed and any(judged.side == "above" for judged in conditions), conditions)


def judge_condition(condition: ObjectiveCondition, level: LevelTable) -> Judged:
    """Return a condition at a level. A session that failed, or was not over when it was cut, is late in any case."""
    if condition.metric == "failed":
        return _judge_failures(condition, level)
    if condition.metric == "wer":
        return _judge_errors(condition, level)
    late, events = exceeding(condition, level)
    total = float(events.sum())
    if not total:
        return Judged(condition, None, False, "open", "no session has it")
    percentile = condition.percentile
    assert percentile is not None
    share = clustered_share(late, events)
    value = _percentile(condition, level)
    # By the share that is late, so that sessions without a value count: P95 is below the limit if at most 5 % are not.
    over = float(late.sum()) / total
    return Judged(
        condition, value, over <= 1 - percentile, share.side_of(1 - percentile), over=over, events=round(total)
    )


def exceeding(condition: ObjectiveCondition, level: LevelTable) -> tuple[Floats, Floats]:
    """Return, by session, how many events were not within the limit of a time, and how many there were."""
    values, sessions = values_of(condition.family, level)
    count = len(level.table)
    late = np.bincount(sessions, values >= condition.limit, count).astype(float)
    events = np.bincount(sessions, minlength=count).astype(float)
    lost = 1.0 - level.completed
    if EVENTS[condition.family] == "word":  # type: ignore[index]
        # Words that no text held until the session failed or was cut.
        spoken = level.table.words.sizes.astype(float)
        missing = lost * np.maximum(0.0, spoken - events)
        late, events = late + missing, events + missing
        unheard = np.full(1, float(level.unheard_words))
    else:
        late, events = np.where(lost > 0, 1.0, late), np.where(lost > 0, 1.0, events)
        unheard = np.ones(level.sessions - count)
    return np.concatenate((late, unheard)), np.concatenate((events, unheard))


def values_of(family: str, level: LevelTable) -> tuple[Floats, Integers]:
    """Return the values of a metric of times and the session of each; sessions that were cut have no final ones."""
    words = level.table.words
    if family == "word_latency":
        return words.latency_s[words.shown], words.stream[words.shown]
    if family == "committed_latency":
        # What a session that was cut shows at its end may still change.
        kept = words.stable & (level.completed[words.stream] > 0)
        return words.committed_s[kept], words.stream[kept]
    values = level.table.fact(family)
    if family == "final_latency":
        # Without word times, from the end of the audio.
        values = np.where(np.isfinite(values), values, level.table.fact("final_latency_from_end"))
    known = np.isfinite(values)
    if family != "first_word_latency":
        known &= level.completed > 0
    return values[known], np.flatnonzero(known)


def latency_rise(level: LevelTable) -> float | None:
    """Return by how much latency rises from the begin of a level to its end, where that is shown; else None."""
    rises = [_rise(level, level.round == round_.index, round_.steady_s) for round_ in level.rounds]
    shown = [rise_s for rise_s in rises if rise_s is not None]
    # In most of its rounds: of many rounds some rise by chance.
    return max(shown) if len(shown) > len(rises) / 2 else None


def session_latencies(level: LevelTable) -> Floats:
    """Return one latency per session, NaN where it has none: that of its final text, or that of its words."""
    return np.where(level.completed > 0, level.table.fact("final_latency_from_end"), np.nan)


def _rise(level: LevelTable, chosen: Floats, steady_s: float) -> float | None:
    latencies_s = session_latencies(level)
    unfinished = chosen & (level.completed == 0)
    known = chosen & np.isfinite(latencies_s)
    begins_s, values_s = level.begin_s[known], latencies_s[known]
    if begins_s.size < FEWEST_FOR_SLOPE or unfinished.sum() > begins_s.size:
        return None
    centred = begins_s - begins_s.mean()
    spread = float(centred @ centred)
    if not spread:
        return None
    slope = float(centred @ values_s) / spread
    residuals = values_s - values_s.mean() - slope * centred
    error = float(np.sqrt(residuals @ residuals / (begins_s.size - 2) / spread))
    least = slope - t_quantile(0.975, begins_s.size - 2) * error
    # As a share of the typical wait too: a tenth of a second more is much for one server and nothing for another.
    threshold_s = max(LEAST_RISE_S, 0.5 * float(np.median(values_s)))
    return slope * steady_s if least > 0 and slope * steady_s > threshold_s else None


def _percentile(condition: ObjectiveCondition, level: LevelTable) -> float | None:
    values, _ = values_of(condition.family, level)
    assert condition.percentile is not None
    return float(nearest_rank(values, condition.percentile)) if values.size else None


def _judge_failures(condition: ObjectiveCondition, level: LevelTable) -> Judged:
    count = len(level.failures)
    side = Share(float(count), float(level.sessions)).side_of(condition.limit)
    note = ""
    if count == 0 and side == "open":
        # That a rare event is rare enough would take thousands of sessions: none at all is taken as a yes.
        side, note = "below", f"none of {level.sessions} sessions failed, which does not show {condition.text}"
    return Judged(
        condition,
        count / level.sessions if level.sessions else None,
        count <= condition.limit * level.sessions,
        side,
        note,
    )


def _judge_errors(condition: ObjectiveCondition, level: LevelTable) -> Judged:
    counted = [
        text.errors
        for text, completed in zip(level.table.texts, level.completed, strict=True)
        if text.errors is not None and completed
    ]
    words = np.array([errors.words for errors in counted], dtype=float)
    wrong = np.array([errors.substitutions + errors.deletions + errors.insertions for errors in counted], dtype=float)
    if not words.sum():
        return Judged(condition, None, False, "open", "no session with a transcript was completed")
    share = clustered_share(np.minimum(wrong, words), words)
    value = float(wrong.sum() / words.sum())
    return Judged(condition, value, value < condition.limit, share.side_of(condition.limit))
