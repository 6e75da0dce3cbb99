"""What `gate:` in a plan file asks of a run: conditions on its results, and on its second engine against its first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.comparable import Comparable
from stopwav.studies.diff.condition import Condition, check_condition, parse_condition
from stopwav.studies.diff.gate import CONDITIONS, Gate, thresholds_of
from stopwav.studies.diff.items import comparable_of
from stopwav.studies.diff.race import Terms, is_decided, judge_race
from stopwav.studies.diff.requirements import Requirements, gate_conditions
from stopwav.studies.plan.yaml_file import Node, shown
from stopwav.studies.study import Study

# A condition by name, with the change that does not matter where it is not the usual one: `slower by 3%`.
_FAILS = re.compile(rf"(?P<name>{'|'.join(CONDITIONS)})(\s+by\s+(?P<percent>[0-9]*\.?[0-9]+)\s*%)?")


@dataclass(frozen=True)
class PlanGate:
    """The conditions on a run: on its results, and by name (`slower`, …) on its second engine against the first."""

    require: tuple[Condition, ...] = ()
    # Each with the change that does not matter; None for the usual one.
    fail_on: tuple[tuple[str, float | None], ...] = ()

    def terms(self, comparable: Comparable) -> Terms:
        """Return what the second engine is judged by."""
        limits = {name: threshold for name, threshold in self.fail_on if threshold is not None}
        return Terms(tuple(dict(self.fail_on)), thresholds=thresholds_of(comparable, limits))

    def __bool__(self) -> bool:
        return bool(self.require or self.fail_on)

    def __add__(self, other: PlanGate) -> PlanGate:
        return PlanGate(self.require + other.require, self.fail_on + other.fail_on)


@dataclass(frozen=True)
class PlanOutcome:
    """Whether a run meets its conditions of either kind; None where it has none of that kind."""

    requirements: Requirements | None
    race: Gate | None

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as `--json` prints it."""
        return {
            **({} if self.requirements is None else self.requirements.to_json()),
            **({} if self.race is None else {"race": self.race.to_json()}),
            "passed": all(judged is None or judged.passed for judged in (self.requirements, self.race)),
        }


def read_gate(node: Node | None, study: Study, *, shared: bool = False) -> PlanGate:
    """Return the conditions that a file states for a study; of shared ones, those that are about this study."""
    if node is None:
        return PlanGate()
    gate = PlanGate()
    for item in node.value if isinstance(node.value, list) else [node]:
        if not isinstance(item.value, str):
            raise StopwavError(f"{item.where}: gate holds conditions such as 'rtf < 0.5', not {shown(item.plain())}")
        try:
            gate += _read(item.value, study)
        except StopwavError as error:
            if not shared:
                raise StopwavError(f"{item.where}: {error}") from None
    return gate


def check_shared_gate(node: Node | None, studies: list[Study]) -> None:
    """Raise for a condition that is about none of the studies of a file."""
    for item in node.value if node is not None and isinstance(node.value, list) else filter(None, [node]):
        if not any(read_gate(item, study, shared=True) for study in studies):
            read_gate(item, studies[0])


def check_engines(gate: PlanGate, arguments: Mapping[str, Any], where: str) -> None:
    """Raise for a condition against the first engine in a run that has not two."""
    count = len(arguments.get("engines", ()))
    if gate.fail_on and count != 2:
        name = gate.fail_on[0][0]
        raise StopwavError(f"{where}: gate: {name} compares the second engine of a run with its first; it has {count}")


def judge_plan(record: Record, gate: PlanGate) -> PlanOutcome:
    """Return whether a run meets its conditions."""
    return PlanOutcome(
        gate_conditions(record, gate.require) if gate.require else None,
        judge_race(record, gate.terms(comparable_of(record))) if gate.fail_on else None,
    )


def stop_rule(gate: PlanGate) -> dict[str, Any]:
    """Return the argument that ends a run as soon as its gate is decided: where all it asks has a rule for looking."""
    if not gate.fail_on or gate.require:
        return {}
    known: dict[str, Terms] = {}  # the rounds that were read stay with the terms

    def is_enough(record: Record) -> bool:
        terms = known.setdefault("terms", gate.terms(comparable_of(record)))
        return is_decided(record, terms)

    return {"until": is_enough}


def _read(text: str, study: Study) -> PlanGate:
    if match := _FAILS.fullmatch(text.strip()):
        if study.comparable is None or not study.comparable.races:
            raise StopwavError(f"{text!r} compares two engines of a run, which {study.name} does not have")
        return PlanGate(fail_on=((match["name"], float(match["percent"]) / 100 if match["percent"] else None),))
    condition = parse_condition(text)
    check_condition(condition, study.definitions)
    return PlanGate(require=(condition,))
