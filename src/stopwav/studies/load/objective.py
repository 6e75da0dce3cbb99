"""An objective: the conditions under which a level counts as served. Capacity without one is no number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stopwav.errors import StopwavError, suggestion
from stopwav.studies.limit import parse_limit

# What a condition may be about, and what one event of it is: each has one value per word or per session, or is a share
# of all sessions or words.
PerEvent = Literal["word_latency", "committed_latency", "first_word_latency", "final_latency", "endpoint_latency"]
EVENTS: dict[PerEvent, Literal["word", "session"]] = {
    "word_latency": "word",
    "committed_latency": "word",
    "first_word_latency": "session",
    "final_latency": "session",
    "endpoint_latency": "session",
}
SHARES = ("failed", "wer")
# A word that is seen within a second feels as if it followed the speaker, and after ten attention is gone: limits
# outside these are slips of the pen.
LEAST_LIMIT_S, MOST_LIMIT_S = 0.001, 3600.0


@dataclass(frozen=True)
class ObjectiveCondition:
    """A metric that has to stay below a limit: seconds of a percentile, or a share."""

    metric: str
    limit: float

    @property
    def family(self) -> str:
        """The metric without its percentile."""
        return self.metric.rpartition("_p")[0] or self.metric

    @property
    def percentile(self) -> float | None:
        """The percentile as a share, such as 0.95; None of a share."""
        return None if self.metric in SHARES else int(self.metric.rpartition("_p")[2]) / 100

    @property
    def needs_transcript(self) -> bool:
        """Whether it can only be known of utterances whose words are."""
        return self.metric != "failed" and self.family != "final_latency"

    @property
    def over_metric(self) -> str:
        """The name of the share of events that are not within the limit of a time."""
        return f"over_p{self.metric.rpartition('_p')[2]}_{self.family}"

    @property
    def text(self) -> str:
        """The condition as it is written."""
        limit = f"{100 * self.limit:g}%" if self.metric in SHARES else f"{self.limit:g}"
        return f"{self.metric}<{limit}"


@dataclass(frozen=True)
class Objective:
    """A name, or "" for one's own, and the conditions that all have to hold."""

    name: str
    conditions: tuple[ObjectiveCondition, ...]

    @property
    def text(self) -> str:
        """The objective as a person reads it."""
        conditions = ", ".join(condition.text for condition in self.conditions)
        return f"{self.name} ({conditions})" if self.name else conditions

    @property
    def longest_limit_s(self) -> float:
        """The largest limit of a time; 0 without one."""
        return max((item.limit for item in self.conditions if item.percentile is not None), default=0.0)


# Their reasons, with sources, are in docs/concepts/load.md.
PRESETS: Mapping[str, tuple[ObjectiveCondition, ...]] = {
    "captions": (ObjectiveCondition("committed_latency_p90", 3.0), ObjectiveCondition("failed", 0.01)),
    "dictation": (
        ObjectiveCondition("word_latency_p90", 1.0),
        ObjectiveCondition("final_latency_p95", 1.0),
        ObjectiveCondition("failed", 0.01),
    ),
    "voice-agent": (ObjectiveCondition("final_latency_p95", 0.8), ObjectiveCondition("failed", 0.01)),
}
DEFAULT = "voice-agent"


def parse_objective(text: str) -> Objective:
    """Return the objective that a text names: a preset, or conditions with commas between them."""
    name = text.strip()
    if name in PRESETS:
        return Objective(name, PRESETS[name])
    parts = [part.strip() for part in name.split(",") if part.strip()]
    if not parts:
        raise StopwavError("give an objective: " + ", ".join(PRESETS) + ', or conditions such as "word_latency_p95<1"')
    conditions = tuple(map(_parse_condition, parts))
    seen = [condition.metric for condition in conditions]
    if len(set(seen)) < len(seen):
        twice = next(metric for metric in seen if seen.count(metric) > 1)
        raise StopwavError(f"the objective {name!r} has two conditions on {twice}: leave one")
    return Objective("", conditions)


def _parse_condition(text: str) -> ObjectiveCondition:
    limit = parse_limit(text)
    if limit is None or limit.relation not in ("<", "<="):
        if re.fullmatch(r"[a-z-]+", text):
            raise StopwavError(f"unknown objective {text!r}; {suggestion(text, PRESETS)}")
        raise StopwavError(
            f"{text!r} is not a condition such as word_latency_p95<1.0, final_latency_p95<800ms, failed<1%"
        )
    if limit.metric in SHARES:
        if limit.unit or not 0 < limit.number < 1:
            raise StopwavError(f"{text!r}: a limit of a share is above 0 and below 100 %, such as 1% or 0.01")
        return ObjectiveCondition(limit.metric, limit.number)
    family, _, percent = limit.metric.rpartition("_p")
    if family not in EVENTS or not percent.isdigit() or not 1 <= int(percent) <= 99:
        known = [*(f"{name}_p95" for name in EVENTS), *SHARES]
        raise StopwavError(f"{text!r}: there is no metric {limit.metric!r}; {suggestion(limit.metric, known)}")
    if limit.unit not in (None, "s") or not LEAST_LIMIT_S <= limit.number <= MOST_LIMIT_S:
        raise StopwavError(f"{text!r}: a limit of {limit.metric} is a time from 1 ms to 1 h, such as 0.8 or 800ms")
    return ObjectiveCondition(limit.metric, limit.number)
