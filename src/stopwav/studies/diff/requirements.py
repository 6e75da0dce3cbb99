"""`stopwav gate RUN --require CONDITION`: whether a run meets conditions of its own, without a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.studies.diff.condition import Condition, ConditionOutcome, Judged, judge_run, parse_condition
from stopwav.studies.diff.diff import Run, read_run
from stopwav.studies.diff.gate import check_complete
from stopwav.studies.study import StudyRun

# The outcome of several: the first of these that any of them has.
_WORST: tuple[Judged, ...] = ("fails", "absent", "undecided", "holds")


@dataclass(frozen=True)
class Requirements:
    """The conditions on one run, each judged by every result that it is about."""

    run: Path
    study: str
    outcomes: tuple[ConditionOutcome, ...]

    @property
    def outcome(self) -> Judged:
        """The outcome of all together: `fails` before `absent`, before `undecided`, before `holds`."""
        return next(worst for worst in _WORST if any(judged.outcome == worst for judged in self.outcomes))

    @property
    def passed(self) -> bool:
        """Whether every condition holds."""
        return self.outcome == "holds"

    def to_json(self) -> dict[str, Any]:
        """Return the outcomes as `--json` prints them."""
        return {
            "passed": self.passed,
            "outcome": self.outcome,
            "study": self.study,
            "run": str(self.run),
            "requirements": [outcome.to_json() for outcome in self.outcomes],
        }


def gate_conditions(run: Run, require: Sequence[str | Condition], *, allow_incomplete: bool = False) -> Requirements:
    """Return whether a run meets conditions such as `word_latency_p95 < 1.0`, by the intervals of its results.

    Each has to hold in every result that has the metric or, with ` of NAME`, in that one. Raises for a condition that
    cannot be read or is about no metric of the study, and for a run that is not complete, unless `allow_incomplete`.
    """
    conditions = [parse_condition(text) if isinstance(text, str) else text for text in require]
    if not conditions:
        raise StopwavError("no condition is given: name one, such as word_latency_p95 < 1.0")
    record = read_run(run)
    check_complete(record, allow_incomplete)
    outcomes = judge_run(conditions, StudyRun(record))
    return Requirements(record.path, record.header.study, tuple(outcomes))
