"""Which of the targets of a run carries more streams, where their intervals tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from stopwav.record import Record
from stopwav.stats import Estimate
from stopwav.studies.load.results import capacity_estimate
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.state import target_states
from stopwav.studies.stored_fields import stored_spec

CapacityVerdictText = Literal["more", "fewer", "same", "undecided"]


@dataclass(frozen=True)
class CapacityVerdict:
    """One target against the first of the run."""

    target: str
    verdict: CapacityVerdictText


@dataclass(frozen=True)
class CapacityVerdicts:
    """The targets of a run against the first of them, by intervals that hold at whatever moment a run is stopped."""

    base: str
    verdicts: tuple[CapacityVerdict, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as `--json` prints them."""
        return {"base": self.base, "verdicts": [asdict(verdict) for verdict in self.verdicts]}


def capacity_verdicts(record: Record) -> CapacityVerdicts | None:
    """Return which targets carry more streams than the first; None where there is only one."""
    spec = stored_spec(LoadSpec, record.header)
    if len(spec.names) < 2:
        return None
    states = target_states(record, spec)
    base, *others = spec.names
    first = capacity_estimate(spec, states[base])
    verdicts = (
        CapacityVerdict(name, compare_capacities(first, capacity_estimate(spec, states[name]))) for name in others
    )
    return CapacityVerdicts(base, tuple(verdicts))


def compare_capacities(base: Estimate, other: Estimate) -> CapacityVerdictText:
    """Return whether another capacity is surely more or fewer than that of the base, or surely the same."""
    if base.low is None or base.high is None or other.low is None or other.high is None:
        return "undecided"
    if other.low > base.high:
        return "more"
    if other.high < base.low:
        return "fewer"
    return "same" if base.low == base.high == other.low == other.high else "undecided"
