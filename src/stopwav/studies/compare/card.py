"""The card of a comparison: a verdict per pair and metric, the Pareto front, and the hypotheses it was run for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.stats import Estimate
from stopwav.stats.estimate import pareto_set
from stopwav.studies.compare.expectation import JudgedExpectation, judge, parse_expectation
from stopwav.studies.compare.run_data import RunData, rounds_of
from stopwav.studies.compare.verdicts import ENERGY, FEWEST_TO_DECIDE, PairVerdict, length_verdicts, overall_verdicts
from stopwav.studies.error_rates import CER, WER
from stopwav.studies.study import StudyRun


@dataclass(frozen=True)
class Pareto:
    """The engines that none is shown to beat on the axes (names of metrics), and those left out, with reasons."""

    axes: tuple[str, ...]
    members: tuple[str, ...]
    beaten: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {
            "axes": list(self.axes),
            "members": list(self.members),
            "beaten": list(self.beaten),
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out],
        }


@dataclass(frozen=True)
class Card:
    """All decisions of a comparison: over all inputs, at each length, and what follows from them.

    `verdicts` have one confidence of 95 % together, and so have `by_length`.
    """

    engines: tuple[str, ...]
    verdicts: tuple[PairVerdict, ...]
    by_length: tuple[PairVerdict, ...]
    pareto: Pareto
    expectations: tuple[JudgedExpectation, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the card as `--json` prints it."""
        return {
            "engines": list(self.engines),
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "by_length": [verdict.to_json() for verdict in self.by_length],
            "pareto": self.pareto.to_json(),
            "expectations": [expectation.to_json() for expectation in self.expectations],
        }


def card(record: Record) -> Card:
    """Return the decisions of a comparison, computed again from its raw observations.

    Verdicts over all inputs have one confidence of 95 % together, and so have those at each length. They need two
    rounds or more.
    """
    if record.header.study != "compare":
        raise StopwavError(f"{record.path}: a run of {record.header.study!r}; only a run of 'compare' has a card")
    run = StudyRun(record)
    return make_card(run.view["data"], run.results)


def make_card(data: RunData, results: Sequence[Result]) -> Card:
    """Return the decisions of a comparison from what its run holds and from its results."""
    names = [engine.name for engine in data.engines]
    verdicts, by_length = overall_verdicts(data), length_verdicts(data)
    expectations = [
        judge(parse_expectation(text, names, data.spec.frames), (*verdicts, *by_length)) for text in data.spec.expect
    ]
    return Card(tuple(names), verdicts, by_length, _pareto(data, results), tuple(expectations))


def _pareto(data: RunData, results: Sequence[Result]) -> Pareto:
    """The Pareto front in word errors (without any, parameters), real-time factor, and energy where it was measured."""
    engines = [result for result in results if result.kind == "engine"]
    axes = [next((rate for rate in (WER, CER) if _any_has(engines, rate)), "parameters"), "rtf"]
    if _any_has(engines, ENERGY):
        axes.append(ENERGY)
    nothing = Estimate(None, note="nothing was measured")
    points = {engine.name: [engine.metrics.get(axis, nothing) for axis in axes] for engine in engines}
    placed = {name: point for name, point in points.items() if all(axis.value is not None for axis in point)}
    rounds = {engine.name: len(rounds_of(engine)) for engine in data.engines}
    members = pareto_set({name: _shown(rounds[name], axes, point) for name, point in placed.items()})
    left_out = [
        (name, next(axis.note for axis in point if axis.value is None))
        for name, point in points.items()
        if name not in placed
    ]
    beaten = tuple(name for name in placed if name not in members)
    return Pareto(tuple(axes), tuple(members), beaten, tuple(left_out))


def _shown(rounds: int, axes: Sequence[str], point: Sequence[Estimate]) -> list[Estimate]:
    """The place of an engine; a time or energy from a single process has no interval that shows anything."""
    if rounds >= FEWEST_TO_DECIDE:
        return list(point)
    counted = ("parameters", WER, CER)
    return [
        estimate if axis in counted else replace(estimate, low=None, high=None)
        for axis, estimate in zip(axes, point, strict=True)
    ]


def _any_has(engines: Sequence[Result], metric: str) -> bool:
    return any(metric in engine.metrics and engine.metrics[metric].value is not None for engine in engines)
